package memcache

import "github.com/katsubushi/katsubushi/v3/protocol"

const opSASLAuth = 0x21

// An opcode says what a binary request does, which lengths its frame must have, and how it is
// counted.
type opcode struct {
	does   action
	kind   protocol.Counter
	extras uint8 // bytes
	key    need
	value  bool // it may have a value
	quiet  bool // no reply on success
	echo   bool // the reply includes the key
	open   bool // allowed before the client has authenticated
}

// An action is how a request is handled.
type action uint8

const (
	unknown action = iota
	giveID
	giveRange
	giveVersion
	giveStats
	doNothing   // what it asks for is already the case
	findNothing // an id exists only once it is issued
	keepNothing // refuse the value
	addNothing  // answer as ADD does for an existing key
	joinNothing // answer as APPEND and PREPEND do
	partWays
	listMechanisms
	logIn
	giveCluster
)

// A need says whether a frame has a key.
type need uint8

const (
	without need = iota
	with
	maybe
)

// What several opcodes do: those with a Q differ only where there is a success to report.
var (
	opGet         = opcode{does: giveID, kind: protocol.CmdGet, key: with}
	opGetKey      = opcode{does: giveID, kind: protocol.CmdGet, key: with, echo: true}
	opGetTouch    = opcode{does: giveID, kind: protocol.CmdGat, extras: 4, key: with}
	opGetTouchKey = opcode{does: giveID, kind: protocol.CmdGat, extras: 4, key: with, echo: true}
	opSet         = opcode{does: keepNothing, kind: protocol.CmdSet, extras: 8, key: with, value: true}
	opAdd         = opcode{does: addNothing, kind: protocol.CmdSet, extras: 8, key: with, value: true}
	opJoin        = opcode{does: joinNothing, kind: protocol.CmdSet, key: with, value: true}
	opDelete      = opcode{does: findNothing, kind: protocol.CmdDelete, key: with}
	opDecrement   = opcode{does: findNothing, kind: protocol.CmdIncr, extras: 20, key: with}
	opLogIn       = opcode{does: logIn, key: with, value: true, open: true}
)

// opcodes holds every opcode that memcached has. The Q commands do not reply on success or, for a
// get, on a miss, which never happens.
var opcodes = [256]opcode{
	0x00: opGet,                                                            // GET
	0x01: opSet,                                                            // SET
	0x02: opAdd,                                                            // ADD
	0x03: opSet,                                                            // REPLACE
	0x04: opDelete,                                                         // DELETE
	0x05: {does: giveRange, kind: protocol.CmdIncr, extras: 20, key: with}, // INCREMENT
	0x06: opDecrement,                                                      // DECREMENT
	0x07: {does: partWays},                                                 // QUIT
	// FLUSH; its extras may be missing
	0x08: {does: doNothing, kind: protocol.CmdFlush, extras: 4},
	0x09: opGet,                                                                         // GETQ
	0x0a: {does: doNothing},                                                             // NOOP
	0x0b: {does: giveVersion, kind: protocol.CmdVersion, open: true},                    // VERSION
	0x0c: opGetKey,                                                                      // GETK
	0x0d: opGetKey,                                                                      // GETKQ
	0x0e: opJoin,                                                                        // APPEND
	0x0f: opJoin,                                                                        // PREPEND
	0x10: {does: giveStats, kind: protocol.CmdStats, key: maybe},                        // STAT
	0x11: opSet,                                                                         // SETQ
	0x12: opAdd,                                                                         // ADDQ
	0x13: opSet,                                                                         // REPLACEQ
	0x14: opDelete,                                                                      // DELETEQ
	0x15: {does: giveRange, kind: protocol.CmdIncr, extras: 20, key: with, quiet: true}, // INCREMENTQ
	0x16: opDecrement,                                                                   // DECREMENTQ
	0x17: {does: partWays, quiet: true},                                                 // QUITQ
	0x18: {does: doNothing, kind: protocol.CmdFlush, extras: 4, quiet: true},            // FLUSHQ
	0x19: opJoin,                                                                        // APPENDQ
	0x1a: opJoin,                                                                        // PREPENDQ
	0x1c: {does: findNothing, kind: protocol.CmdTouch, extras: 4, key: with},            // TOUCH
	0x1d: opGetTouch,                                                                    // GAT
	0x1e: opGetTouch,                                                                    // GATQ
	0x20: {does: listMechanisms, open: true},                                            // SASL_LIST_MECHS
	0x21: opLogIn,                                                                       // SASL_AUTH
	0x22: opLogIn,                                                                       // SASL_STEP
	0x23: opGetTouchKey,                                                                 // GATK
	0x24: opGetTouchKey,                                                                 // GATKQ
	0x60: {does: giveCluster, key: with},                                                // CONFIG_GET, Amazon's
}

// fits reports whether a frame's lengths add up and match its opcode.
func (op *opcode) fits(h *header) bool {
	switch {
	case h.key > protocol.MaxKey || h.value() < 0:
		return false
	case op.does == unknown:
		return true
	case h.extras != int(op.extras) && !(op.kind == protocol.CmdFlush && h.extras == 0):
		return false
	case op.key == without && h.key > 0, op.key == with && h.key == 0:
		return false
	}
	return op.value || h.value() == 0
}
