package leader

import (
	"context"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
)

// Groups is how many groups names are divided into: neighbouring slots of Redis Cluster, so that
// CLUSTER SLOTS can say who leads. It is fixed in a Board when that is first used.
const Groups = 16

// MaxGroups counts the groups of timestamps too: group g has those of the slots of g-Groups. Daemons of releases that
// know no timestamps do not know these groups either, and so lead none.
const MaxGroups = 2 * Groups

// slotsOf is how many slots a group has.
const slotsOf = id.Slots / Groups

// Group returns the group of a slot, 0 to Groups-1. id.Slot returns the slot of a name.
func Group(slot int) int { return slot / slotsOf }

// GroupOf returns the group of a name that is no timestamps.
func GroupOf(name string) int { return Group(SlotOf(name)) }

// SlotOf returns the slot of a name.
func SlotOf(name string) int { return id.Slot(name) }

// TimedGroupOf returns the group of a name that is timestamps.
func TimedGroupOf(name string) int { return GroupOf(name) + Groups }

// Timed reports whether a group is one of timestamps.
func Timed(group int) bool { return group >= Groups }

// SlotsOf returns the first and the last slot of a group, which is none of timestamps.
func SlotsOf(group int) (first, last int) { return group * slotsOf, (group+1)*slotsOf - 1 }

// A Node is a daemon that takes part.
type Node struct {
	ID    string // random; another one after each restart
	Redis string // HOST:PORT of the Redis protocol, where clients are sent to
}

// A Term is the time from when a daemon became the leader of a group until it ended.
type Term struct {
	Group  int
	Fence  int64  // the revision of the group's key that made it the leader
	Number uint64 // of the group's terms, from 1 on
}

// A Leader is what a Board holds of a group.
type Leader struct {
	Node            // ID "" = no daemon leads
	Number   uint64 // of the newest term; 0 = there was none
	Heir     string // ID of the daemon that is to claim the group at once; "" = any
	Revision int64  // of the last write of the key; 0 = there was none
}

// A NodeKey is what a Board holds of a daemon.
type NodeKey struct {
	Node
	Revision int64 // of the last write; never 0
	Stamp    int64 // the time of day of the daemon when it wrote that, Unix ms; 0 = it says nothing
}

// A State is all that a Board holds, at one moment.
type State struct {
	Leaders [MaxGroups]Leader
	Nodes   []NodeKey // by ID
}

// Node returns the key of a daemon; its Revision is 0 if there is none.
func (s *State) Node(id string) NodeKey {
	for _, n := range s.Nodes {
		if n.ID == id {
			return n
		}
	}
	return NodeKey{Node: Node{ID: id}}
}

// A Change is one transaction of a Board: if all keys still have the revisions that are given, it writes
// all that it says. A Change that compares and writes nothing only reads.
type Change struct {
	Leaders map[int]int64    // the revisions that the keys of these groups must have; 0 = there is none
	Nodes   map[string]int64 // the same of daemons, by ID
	Lead    map[int]Leader   // what to write of groups; Revision does not count
	Put     *Node            // the node key to write; nil = none
	Stamp   int64            // of Put; 0 = none
	Drop    []string         // the IDs of the node keys to delete
}

// A Board is where daemons agree who leads. Package counter/etcd has one.
type Board interface {
	// Commit carries out a Change as a whole, or nothing of it if a key has another revision; done says
	// which. The State is that of right after it, never an older one. After an error the Change may have
	// been carried out, or may be later. All States are of one store: of another one, such as a copy that was
	// restored beside it, Commit returns ErrReplaced, because each of the two would have a leader.
	Commit(ctx context.Context, c Change) (done bool, now State, err error)
	// Watch calls changed when keys of groups may have changed, until ctx ends or it returns an error.
	// It may miss changes. written is what one Change wrote, by group; nil if Watch does not know.
	// changed must return at once.
	Watch(ctx context.Context, changed func(written map[int]Leader)) error
}

// A View is what a daemon knows of all. It never changes.
type View struct {
	Leaders [MaxGroups]Leader
	Nodes   []NodeKey // by ID; among them ones that ended without saying so, for a minute
	At      int64     // when it was read, in ns of the Runner's clock; 0 = not yet

	Offset int64         // the fleet's time, Unix ns, minus moments of the Runner's clock; 0 = not known
	Apart  time.Duration // how far this daemon's clock is ahead of that, or behind, if it is wrong; 0 = it is not
}

// Time returns what time it is, as Unix ns minus moments of the Runner's clock, where own is that of this daemon's own
// clock: that counts, but not if it is ahead of the fleet's time by more than MaxSkew. known is false before there
// was an answer.
func (v *View) Time(own int64) (offset int64, known bool) {
	return min(own, v.Offset+int64(MaxSkew)), v.Offset != 0
}

// Leader returns who leads a group, or false if no daemon does. That may have changed since.
func (v *View) Leader(group int) (Node, bool) {
	n := v.Leaders[group].Node
	return n, n.ID != ""
}

// Held returns how many groups a daemon leads.
func (v *View) Held(id string) (n int) {
	for _, l := range v.Leaders {
		if l.ID == id {
			n++
		}
	}
	return n
}
