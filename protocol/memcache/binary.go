package memcache

import (
	"encoding/binary"
	"slices"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/visible"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// The binary grammar: a header, then extras, key and value, in both directions.
//
//	 0      1       2        4       5     6        8         12      16   24
//	│magic │opcode │key     │extras │data │vbucket,│body     │opaque │cas │
//	│      │       │length  │length │type │status  │length   │       │    │
const (
	magicRequest  = 0x80
	magicResponse = 0x81
	headerLen     = 24
)

// A status says how a request went.
type status uint16

const (
	statusOK           status = 0x00
	statusNotFound     status = 0x01
	statusExists       status = 0x02
	statusInvalid      status = 0x04
	statusNotStored    status = 0x05
	statusNonNumeric   status = 0x06
	statusAuthError    status = 0x20
	statusAuthContinue status = 0x21
	statusUnknown      status = 0x81
	statusTemporary    status = 0x86
)

// noFlags is the flags field of an item.
const noFlags = "\x00\x00\x00\x00"

// A failure is a status with its error message.
type failure struct {
	code status
	text string
}

var (
	failNotFound  = failure{statusNotFound, "Not found"}
	failExists    = failure{statusExists, "Data exists for key."}
	failInvalid   = failure{statusInvalid, "Invalid arguments"}
	failReadOnly  = failure{statusNotStored, readOnly}
	failNotStored = failure{statusNotStored, "Not stored."}
	failNonNumber = failure{statusNonNumeric, "Non-numeric server-side value for incr or decr"}
	failAuth      = failure{statusAuthError, "Auth failure."}
	failUnknown   = failure{statusUnknown, "Unknown command"}
)

// A header holds the fields of a request's header that are needed.
type header struct {
	opcode byte
	extras int    // bytes
	key    int    // bytes
	body   int    // bytes: extras, key and value
	opaque uint32 // returned unchanged, whatever it means
	cas    bool   // it is not 0
}

func parseHeader(b []byte) header {
	return header{
		opcode: b[1],
		key:    int(binary.BigEndian.Uint16(b[2:])),
		extras: int(b[4]),
		body:   int(binary.BigEndian.Uint32(b[8:])),
		opaque: binary.BigEndian.Uint32(b[12:]),
		cas:    binary.BigEndian.Uint64(b[16:]) != 0,
	}
}

func (h *header) value() int { return h.body - h.key - h.extras }

// frame answers the request at the start of in. It checks the header before it waits for more, and
// it waits for no value except credentials.
func (s *Session) frame(t *turn, in []byte) (int, error) {
	if in[0] != magicRequest {
		t.Add(protocol.Malformed, 1)
		return len(in), s.hangUp()
	}
	if len(in) < headerLen {
		return 0, nil
	}
	h := parseHeader(in)
	op := s.opcode(&h)
	switch {
	case h.value() > MaxBody:
		t.Add(protocol.TooLong, 1)
		return len(in), s.protocolError(t, op, &h)
	case !op.fits(&h):
		t.Add(protocol.Malformed, 1)
		return len(in), s.protocolError(t, op, &h)
	case s.locked() && !op.open:
		t.Add(protocol.Unauthenticated, 1)
		return s.refuseFrame(t, op, &h, failAuth), s.hangUp()
	case op.does == unknown:
		t.Add(protocol.Malformed, 1)
		return s.refuseFrame(t, op, &h, failUnknown), nil
	case op.does == keepNothing:
		return s.refuseFrame(t, op, &h, failReadOnly), nil
	case op.does == joinNothing:
		return s.refuseFrame(t, op, &h, failNotStored), nil
	case op.does == addNothing:
		return s.refuseFrame(t, op, &h, failExists), nil
	case op.does == logIn && h.key > maxMechanism:
		t.Add(protocol.Malformed, 1)
		return s.refuseFrame(t, op, &h, failInvalid), nil
	case op.does == logIn && h.value() > maxCredentials:
		return s.saslTooLong(t, &h)
	}
	n := headerLen + h.body
	if len(in) < n {
		return 0, nil
	}
	if op.does != logIn { // counted when it is decided
		t.Add(op.kind, 1)
	}
	err := s.act(t, op, &h, in[headerLen:n])
	if err == id.ErrWait {
		if n = 0; op.does != logIn {
			t.Add(op.kind, -1)
		}
	}
	return n, err
}

// opcode looks the request up. The SASL opcodes are unknown without authentication, CONFIG_GET
// without configuration.
func (s *Session) opcode(h *header) opcode {
	op := opcodes[h.opcode]
	if s.config.Auth == nil && (op.does == logIn || op.does == listMechanisms) {
		return opcode{kind: op.kind}
	}
	if s.config.Cluster == "" && op.does == giveCluster {
		return opcode{kind: op.kind}
	}
	return op
}

// protocolError answers a frame that cannot be right; what follows cannot be right either.
func (s *Session) protocolError(t *turn, op opcode, h *header) error {
	t.Add(op.kind, 1)
	t.fail(h, failInvalid)
	return s.hangUp()
}

// refuseFrame answers a request and discards its body as it arrives.
func (s *Session) refuseFrame(t *turn, op opcode, h *header, why failure) int {
	t.Add(op.kind, 1)
	t.fail(h, why)
	if h.body > 0 {
		s.swallow(int64(h.body))
	}
	return headerLen
}

// act answers a request whose body is complete.
func (s *Session) act(t *turn, op opcode, h *header, in []byte) error {
	key, value := in[h.extras:h.extras+h.key], in[h.extras+h.key:]
	switch op.does {
	case giveID:
		return s.binaryGet(t, h, key, op.echo)
	case giveRange:
		return s.binaryIncr(t, h, key, in, op.quiet)
	case giveVersion:
		t.respond(h, statusOK, s.config.Version)
	case giveStats:
		s.binaryStats(t, h, key)
	case doNothing:
		if !op.quiet {
			t.respond(h, statusOK, "")
		}
	case findNothing:
		t.fail(h, failNotFound)
	case partWays:
		if !op.quiet {
			t.respond(h, statusOK, "")
		}
		return s.hangUp()
	case listMechanisms:
		s.trusted = false // memcached starts over here too
		t.respond(h, statusOK, "PLAIN")
	case logIn:
		return s.sasl(t, h, key, value)
	case giveCluster:
		s.binaryConfigure(t, h, key)
	}
	return nil
}

// binaryGet answers with four bytes of flags, the key if requested, and the id, which is also the
// cas.
func (s *Session) binaryGet(t *turn, h *header, key []byte, echo bool) error {
	run, err := t.Issue(s.config.Handler, key)
	if err != nil {
		return t.respondError(h, err)
	}
	var text id.Text
	text.Start(run)
	if !echo {
		key = nil
	}
	out := slices.Grow(t.Out, headerLen+len(noFlags)+len(key)+id.Room)
	out = h.appendResponse(out, statusOK, len(noFlags), len(key), text.Len(), text.Number())
	out = append(append(out, noFlags...), key...)
	t.Out = text.Append(out)
	return nil
}

// binaryStats answers with one frame per statistic and an empty frame at the end.
func (s *Session) binaryStats(t *turn, h *header, key []byte) {
	group := lower(make([]byte, 0, longestGroup), key)
	exists := len(group) == len(key)
	switch string(group) {
	case "reset", "conns", "sizes", "detail on", "detail off", "detail dump":
	default:
		if exists {
			t.Enough = true
			t.Out, exists = frameStats(s.config.Handler, h, group, t.Out)
		}
	}
	if !exists {
		t.fail(h, failNotFound)
		return
	}
	t.respond(h, statusOK, "")
}

func (t *turn) fail(h *header, f failure) { t.respond(h, f.code, f.text) }

// respond sends a status and a text.
func (t *turn) respond(h *header, code status, text string) {
	t.Out = append(h.appendResponse(t.Out, code, 0, 0, len(text), 0), text...)
}

// respondError is respond with a reason given by the program behind. If that is id.ErrWait, it does
// not respond, but returns it.
func (t *turn) respondError(h *header, reason error) error {
	if reason == id.ErrWait {
		return reason
	}
	text := visible.AppendLine(make([]byte, 0, protocol.MaxReason), reason.Error(), protocol.MaxReason)
	code := statusTemporary
	switch reason.(type) {
	case id.UnknownName:
		code = statusInvalid // not found would be a miss, which clients do not report
	case id.NotPermitted:
		code = statusAuthError
	}
	t.Out = append(h.appendResponse(t.Out, code, 0, 0, len(text), 0), text...)
	return nil
}

// appendResponse appends the header of a response.
func (h *header) appendResponse(out []byte, code status, extras, key, value int, cas uint64) []byte {
	out = append(out, magicResponse, h.opcode)
	out = binary.BigEndian.AppendUint16(out, uint16(key))
	out = append(out, byte(extras), 0)
	out = binary.BigEndian.AppendUint16(out, uint16(code))
	out = binary.BigEndian.AppendUint32(out, uint32(extras+key+value))
	out = binary.BigEndian.AppendUint32(out, h.opaque)
	return binary.BigEndian.AppendUint64(out, cas)
}
