package stores

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
)

// An Elector is a CounterStore in which daemons agree on who leads the sequences with order=strict.
type Elector interface {
	CounterStore
	leader.Board
	leader.Demands
	// Within returns the Store that reserves and gives back only while a term lasts.
	Within(t leader.Term) counter.Store
}

// Leaders reads who leads.
func Leaders(ctx context.Context, e Elector) (leader.State, error) {
	_, now, err := e.Commit(ctx, leader.Change{})
	return now, err
}

// Led is who leads a sequence.
type Led struct {
	Group  int    `json:"group"`
	Leader string `json:"leader"` // HOST:PORT; empty = nobody
}

// ShowLeader returns who leads a sequence with order=strict.
func ShowLeader(now *leader.State, name string) *Led {
	g := leader.GroupOf(name)
	return &Led{g, now.Leaders[g].Redis}
}

// A GroupError is the error for a group that there cannot be.
type GroupError int

func (g GroupError) Error() string {
	return fmt.Sprintf("group %d: 0 to %d allowed", int(g), leader.Groups-1)
}

// GroupsOf returns the groups that somebody leads and that which stands for: all of them if it is empty, the one
// with that number, or those of the daemon at that HOST:PORT. If there are none, the error is a Conflict or
// a GroupError.
func GroupsOf(now *leader.State, which string) (groups []int, err error) {
	n, notNumber := strconv.Atoi(which)
	if notNumber == nil && (n < 0 || n >= leader.Groups) {
		return nil, GroupError(n)
	}
	for g, l := range now.Leaders {
		if l.ID != "" && (which == "" || notNumber == nil && g == n || l.Redis == which) {
			groups = append(groups, g)
		}
	}
	switch {
	case len(groups) > 0:
		return groups, nil
	case which == "":
		return nil, conflict("nobody leads: there is no daemon, or none of the sequences has order=strict")
	case notNumber == nil:
		return nil, conflict("nobody leads group %d", n)
	}
	return nil, conflict("%.300s leads no group", strings.ToValidUTF8(which, "?"))
}

// A HandedOver is a group that another daemon leads since a HandOver.
type HandedOver struct {
	Group int    `json:"group"`
	From  string `json:"from"` // HOST:PORT
	To    string `json:"to"`
}

// HandOver demotes the leaders that which stands for, see GroupsOf, all at the same time. It returns those groups
// that were handed over beside the error of others.
func HandOver(ctx context.Context, e Elector, which string) (done []HandedOver, err error) {
	now, err := Leaders(ctx, e)
	if err != nil {
		return nil, err
	}
	groups, err := GroupsOf(&now, which)
	if err != nil {
		return nil, err
	}
	errs, to := make([]error, len(groups)), make([]leader.Leader, len(groups))
	var all sync.WaitGroup
	for i, g := range groups {
		all.Go(func() { to[i], errs[i] = Demote(ctx, e, &now, g) })
	}
	all.Wait()
	for i, g := range groups {
		if errs[i] == nil {
			done = append(done, HandedOver{g, now.Leaders[g].Redis, to[i].Redis})
		}
	}
	return done, errors.Join(errs...)
}

// demandPoll is the time between two looks whether a demand was met.
const demandPoll = 50 * time.Millisecond

// Demote asks whoever leads a group to hand it over, and waits until somebody else leads it, or until ctx
// ends. now is what Leaders returned.
func Demote(ctx context.Context, e Elector, now *leader.State, group int) (to leader.Leader, err error) {
	was := now.Leaders[group]
	if err := e.Leave(ctx, leader.Demand{Group: group, Term: was.Number}); err != nil {
		return to, err
	}
	for {
		select {
		case <-time.After(demandPoll):
		case <-ctx.Done():
			return to, fmt.Errorf("group %d: %s has not handed it over yet. If that daemon does not run, another one takes the group over without being asked", group, was.Redis)
		}
		now, err := Leaders(ctx, e)
		if l := now.Leaders[group]; err == nil && l.ID != "" && l.Number > was.Number {
			return l, nil
		}
		left, err := e.Left(ctx)
		if err != nil {
			continue // ctx says for how long
		}
		for _, d := range left {
			if d.Group == group && d.Term == was.Number && d.Answer != "" {
				return to, conflict("group %d: %s: %s", group, was.Redis, d.Answer)
			}
		}
	}
}
