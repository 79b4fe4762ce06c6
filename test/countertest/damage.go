package countertest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// RunDamaged tests what becomes of a record that cannot be read, and of the others. damage makes one of
// the record of a name.
func RunDamaged(t *testing.T, open Open, damage func(name string)) {
	s, admin := open(t)
	orders, items := odd("orders"), odd("items")
	orders.Max = counter.MaxValue
	items.Max = counter.MaxValue
	define(t, s, orders)
	define(t, s, items)
	since, _, err := s.Changes(bg, "")
	if err != nil {
		t.Fatal(err)
	}
	reserve(t, s, 3, 1, 5)
	damage("orders")

	// Also for those who come now: it is there, and nothing but Revive changes it.
	other, operator := open(t)
	for who, s := range map[string]counter.Store{"daemon": s, "newcomer": other} {
		_, err1 := s.Define(bg, orders)
		_, err2 := s.Reserve(bg, "orders", 1)
		for _, err := range []error{err1, err2, s.Return(bg, "orders", counter.Block{Lo: 1, Hi: 5, Token: "t"}, 3)} {
			if !errors.Is(err, counter.ErrDamaged) || !counter.Certain(err) || errors.Is(err, counter.ErrUnavailable) {
				t.Errorf("%s: %v", who, err)
			}
		}
	}
	for who, a := range map[string]counter.Admin{"operator": admin, "newcomer": operator} {
		_, err1 := a.Show(bg, "orders")
		_, err2 := a.Raise(bg, "orders", 1001)
		_, err3 := a.Retire(bg, "orders")
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, counter.ErrDamaged) {
				t.Errorf("%s: %v", who, err)
			}
		}
		list, err := a.List(bg)
		if err != nil || names(list) != "items orders" || !isDamaged(list[1]) ||
			list[0].Fault != nil || list[0].Next != 1 {
			t.Errorf("%s: %+v, %v", who, list, err)
		}
	}
	if _, list, err := other.Changes(bg, ""); err != nil || names(list) != "items orders" || !isDamaged(list[1]) {
		t.Errorf("%+v, %v", list, err)
	}
	if b, err := other.Reserve(bg, "items", 2); err != nil || b.Lo != 1 {
		t.Errorf("of another sequence: %+v, %v", b, err)
	}

	wrong := orders
	wrong.Step, wrong.Offset = 2, 3
	unknown := odd("unknown")
	unknown.Max = counter.MaxValue
	_, err1 := operator.Revive(bg, items, 1001)
	_, err2 := operator.Revive(bg, unknown, 1001)
	_, err3 := operator.Revive(bg, wrong, 1001)
	_, err4 := operator.Revive(bg, orders, 0)
	if err1 == nil || !errors.Is(err2, counter.ErrUnknown) || err3 == nil || err4 == nil {
		t.Errorf("%v, %v, %v, %v", err1, err2, err3, err4)
	}
	if r, err := operator.Show(bg, "items"); err != nil || r.Floor != 0 || r.Next != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err := operator.Revive(bg, orders, 1000)
	if err != nil || r.Floor != 1000 || r.Next != 1001 || !r.Definition.Same(orders) {
		t.Fatalf("%+v, %v", r, err)
	}
	now, list, err := s.Changes(bg, since)
	if err != nil || now == since || len(list) != 2 || list[1].Fault != nil || list[1].Floor != 1000 {
		t.Errorf("a daemon that ran: %+v, %v", list, err)
	}
	for i, s := range []counter.Store{s, other} {
		if b, err := s.Reserve(bg, "orders", 5); err != nil || b.Lo != 1001+uint64(i)*10 {
			t.Errorf("%+v, %v", b, err)
		}
	}
	if list, err := admin.List(bg); err != nil || list[1].Fault != nil || list[1].Next != 1021 {
		t.Errorf("%s, %v", fmt.Sprint(list), err)
	}
}

// RunUnusable tests what becomes of what must not be written over, see counter.ErrUnusable, and of the other
// records. spoil puts it in the place of the record of a name.
func RunUnusable(t *testing.T, open Open, spoil func(name string)) {
	s, _ := open(t)
	orders, items := odd("orders"), odd("items")
	orders.Max, items.Max = counter.MaxValue, counter.MaxValue
	define(t, s, orders)
	define(t, s, items)
	reserve(t, s, 3, 1, 5)
	spoil("orders")
	other, operator := open(t)
	for who, s := range map[string]counter.Store{"daemon": s, "newcomer": other} {
		_, err1 := s.Define(bg, orders)
		_, err2 := s.Reserve(bg, "orders", 1)
		err3 := s.Return(bg, "orders", counter.Block{Lo: 1, Hi: 5, Token: "t"}, 3)
		_, err4 := operator.Show(bg, "orders")
		_, err5 := operator.Raise(bg, "orders", 1001)
		_, err6 := operator.Retire(bg, "orders")
		_, err7 := operator.Revive(bg, orders, 1001)
		for i, err := range []error{err1, err2, err3, err4, err5, err6, err7} {
			if !errors.Is(err, counter.ErrUnusable) || !counter.Certain(err) || errors.Is(err, counter.ErrDamaged) ||
				errors.Is(err, counter.ErrUnavailable) {
				t.Errorf("%s, call %d: %v", who, i+1, err)
			}
		}
		_, list, err := s.Changes(bg, "")
		if err != nil || names(list) != "items orders" || !errors.Is(list[1].Fault, counter.ErrUnusable) {
			t.Errorf("%s: %+v, %v", who, list, err)
		}
	}
	if b, err := other.Reserve(bg, "items", 2); err != nil || b.Lo != 1 {
		t.Errorf("of another sequence: %+v, %v", b, err)
	}
}

func isDamaged(r counter.Record) bool {
	return errors.Is(r.Fault, counter.ErrDamaged) && !r.Readable() && r.Next == 0
}
