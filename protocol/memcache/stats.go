package memcache

import (
	"github.com/katsubushi/katsubushi/v3/internal/visible"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// stats answers a request for a statistics group. The values come from the Handler, the format from
// the protocol.
func (s *Session) stats(t *turn, rest []byte) {
	t.Add(protocol.CmdStats, 1)
	f := split(rest)
	group := lower(make([]byte, 0, longestGroup), f.at(0))
	exists := len(group) == len(f.at(0))
	switch string(group) {
	case "reset":
		t.Say("RESET\r\n")
		return
	case "detail":
		t.statsDetail(f.at(1))
		return
	case "conns", "sizes": // they exist, and are empty
	default:
		if exists {
			t.Enough = true
			t.Out, exists = textStats(s.config.Handler, group, t.Out)
		}
	}
	if !exists {
		t.blame(errUnknown)
		return
	}
	t.Say("END\r\n")
}

// longestGroup limits the name of a statistics group, in bytes.
const longestGroup = 32

// statsDetail switches statistics by key prefix on and off, which this server does not have.
func (t *turn) statsDetail(what []byte) {
	switch string(what) {
	case "on", "off":
		t.Say("OK\r\n")
	case "dump":
		t.Say("END\r\n")
	default:
		t.blame(errStatsUsage)
	}
}

// In textStats and frameStats, what the Handler emits escapes to the heap. So that turn and session
// do not escape too, these functions do not see them.

func textStats(h protocol.Handler, group, out []byte) ([]byte, bool) {
	begin := len(out)
	ok := h.Stats(group, func(name, value string) {
		out = append(out, "STAT "...)
		out = visible.AppendLine(out, name, protocol.MaxKey)
		out = append(out, ' ')
		out = visible.AppendLine(out, value, maxLine)
		out = append(out, "\r\n"...)
	})
	if !ok {
		out = out[:begin]
	}
	return out, ok
}

func frameStats(h protocol.Handler, to *header, group, out []byte) ([]byte, bool) {
	request, begin := *to, len(out)
	ok := h.Stats(group, func(name, value string) {
		text := visible.AppendLine(nil, name, protocol.MaxKey)
		key := len(text)
		text = visible.AppendLine(text, value, maxLine)
		out = request.appendResponse(out, statusOK, 0, key, len(text)-key, 0)
		out = append(out, text...)
	})
	if !ok {
		out = out[:begin]
	}
	return out, ok
}
