package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// Demands of operators are keys beside those of leaders: demote/GG is the number of a term and then, after
// a space, the answer.

func (s *Store) demandKey(group string) string { return s.link.Root + "demote/" + group }

// Leave implements leader.Demands.
func (s *Store) Leave(ctx context.Context, demands ...leader.Demand) error {
	var puts []etcdlink.Op
	for _, d := range demands {
		puts = append(puts,
			etcdlink.Put(s.demandKey(fmt.Sprintf("%02d", d.Group)), strconv.FormatUint(d.Term, 10)+" "+d.Answer))
	}
	_, err := s.link.commit(ctx, s.demandKey(""), nil, puts, nil)
	return err
}

// Left implements leader.Demands. What no daemon can have left is left out.
func (s *Store) Left(ctx context.Context) (list []leader.Demand, err error) {
	root := s.demandKey("")
	got, err := s.link.all(ctx, root)
	if err != nil {
		return nil, err
	}
	for _, kv := range got.Found[0].Pairs {
		group, err1 := strconv.Atoi(strings.TrimPrefix(kv.Key, root))
		term, answer, _ := strings.Cut(kv.Text, " ")
		n, err2 := strconv.ParseUint(term, 10, 64)
		if err1 == nil && err2 == nil && group >= 0 && group < leader.MaxGroups {
			list = append(list, leader.Demand{Group: group, Term: n, Answer: answer})
		}
	}
	return list, nil
}

var _ leader.Demands = (*Store)(nil)
