package protocol

// stats answers a statistics group. Its values are the Handler's, its shape is the protocol's.
func (s *Session) stats(t *turn, rest []byte) {
	t.add(CmdStats, 1)
	f := split(rest)
	group := lower(make([]byte, 0, longestGroup), f.at(0))
	switch {
	case f.n > 0 && len(group) == 0:
		t.blame(errUnknown)
		return
	case string(group) == "reset":
		t.say("RESET\r\n")
		return
	case string(group) == "detail":
		t.statsDetail(f.at(1))
		return
	}
	if !isEmptyGroup(group) {
		var ok bool
		if t.out, ok = textStats(s.config.Handler, group, t.out); !ok {
			t.blame(errUnknown)
			return
		}
	}
	t.say("END\r\n")
}

// longestGroup bounds the name of a statistics group, in bytes.
const longestGroup = 32

// isEmptyGroup names the groups that exist and have nothing to tell.
func isEmptyGroup(group []byte) bool { return string(group) == "conns" || string(group) == "sizes" }

// statsDetail switches on and off what we do not have: statistics by key prefix.
func (t *turn) statsDetail(what []byte) {
	switch string(what) {
	case "on", "off":
		t.say("OK\r\n")
	case "dump":
		t.say("END\r\n")
	default:
		t.blame(errStatsUsage)
	}
}

func textStats(h Handler, group, out []byte) ([]byte, bool) {
	ok := h.Stats(group, func(name, value string) {
		out = append(out, "STAT "...)
		out = appendLine(out, name, MaxKey)
		out = append(out, ' ')
		out = appendLine(out, value, MaxLine)
		out = append(out, "\r\n"...)
	})
	return out, ok
}
