package leader

import "context"

// A Demand is what an operator wants of the leader of a group: that it hands the group over. It stands in
// the Board's store until another one takes its place, and is void once the term is over.
type Demand struct {
	Group  int
	Term   uint64 // the number of the term that is to end
	Answer string // why it is not handed over; "" = not answered
}

// Demands is where Demands are left. Package counter/etcd has it.
type Demands interface {
	// Leave writes Demands, in place of others for their groups.
	Leave(ctx context.Context, d ...Demand) error
	// Left returns what was left, also what is void.
	Left(ctx context.Context) ([]Demand, error)
}
