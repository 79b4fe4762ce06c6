package stores

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
func ShowLeader(now *leader.State, d counter.Definition) *Led {
	g := leader.GroupOf(d.Name)
	if d.Timed() {
		g = leader.TimedGroupOf(d.Name)
	}
	return &Led{g, now.Leaders[g].Redis}
}

// A GroupError is the error for what can stand for no group, whoever leads.
type GroupError string

func (g GroupError) Error() string { return string(g) }

// allGroups stands for every group, see groupsOf.
const allGroups = "all"

// groupsOf returns the groups that a daemon leads and that which stands for: allGroups, the one with that number, or
// those of the daemon at that HOST:PORT. If there are none, the error is a Conflict or a GroupError.
func groupsOf(now *leader.State, which string) (groups []int, err error) {
	if err := CheckGroups(which); err != nil {
		return nil, err
	}
	n, notNumber := strconv.Atoi(which)
	for g, l := range now.Leaders {
		if l.ID != "" && (which == allGroups || notNumber == nil && g == n || l.Redis == which) {
			groups = append(groups, g)
		}
	}
	switch {
	case len(groups) > 0:
		return groups, nil
	case which == allGroups:
		return nil, conflict("nobody leads: there is no daemon, or none of the sequences has order=strict")
	case notNumber == nil:
		return nil, conflict("nobody leads group %d", n)
	}
	return nil, conflict("%.300s leads no group", strings.ToValidUTF8(which, "?"))
}

// CheckGroups returns a GroupError for what HandOver refuses whoever leads. It asks nobody.
func CheckGroups(which string) error {
	n, notNumber := strconv.Atoi(which)
	switch {
	case notNumber == nil && (n < 0 || n >= leader.MaxGroups):
		return GroupError(fmt.Sprintf("group %d: 0 to %d allowed", n, leader.MaxGroups-1))
	case notNumber != nil && which != allGroups && !strings.Contains(which, ":"):
		return GroupError(fmt.Sprintf("%.300q is no group: %s, 0 to %d or HOST:PORT allowed; name show NAME has that "+
			"of a name", which, allGroups, leader.MaxGroups-1))
	}
	return nil
}

// A HandedOver is a group that another daemon leads since a HandOver.
type HandedOver struct {
	Group int    `json:"group"`
	From  string `json:"from"` // HOST:PORT
	To    string `json:"to"`
}

// demandPoll is the time between two looks whether demands were met.
const demandPoll = 50 * time.Millisecond

// HandOver asks the leaders that which stands for, see groupsOf, to hand over, and waits until others lead, or
// until ctx ends. It returns those groups that were handed over beside the error of others.
func HandOver(ctx context.Context, e Elector, which string) (done []HandedOver, err error) {
	if err := CheckGroups(which); err != nil {
		return nil, err
	}
	was, err := Leaders(ctx, e)
	if err != nil {
		return nil, err
	}
	groups, err := groupsOf(&was, which)
	if err != nil {
		return nil, err
	}
	var demands []leader.Demand
	for _, g := range groups {
		demands = append(demands, leader.Demand{Group: g, Term: was.Leaders[g].Number})
	}
	if err := e.Leave(ctx, demands...); err != nil {
		return nil, err
	}
	var refused []error
	for len(demands) > 0 {
		select {
		case <-time.After(demandPoll):
		case <-ctx.Done():
			for _, d := range demands {
				refused = append(refused,
					fmt.Errorf("group %d: %s has not handed it over yet. If that daemon does not run, another one takes the group "+
						"over without being asked", d.Group, was.Leaders[d.Group].Redis))
			}
			return done, errors.Join(refused...)
		}
		now, err := Leaders(ctx, e)
		if err != nil {
			continue // ctx says for how long
		}
		left, _ := e.Left(ctx)
		demands = slices.DeleteFunc(demands, func(d leader.Demand) bool {
			from, l := was.Leaders[d.Group].Redis, now.Leaders[d.Group]
			if l.ID != "" && l.Number > d.Term {
				done = append(done, HandedOver{d.Group, from, l.Redis})
				return true
			}
			for _, answer := range left {
				if answer.Group == d.Group && answer.Term == d.Term && answer.Answer != "" {
					refused = append(refused, conflict("group %d: %s: %s", d.Group, from, answer.Answer))
					return true
				}
			}
			return false
		})
	}
	slices.SortFunc(done, func(a, b HandedOver) int { return a.Group - b.Group })
	return done, errors.Join(refused...)
}
