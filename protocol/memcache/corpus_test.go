package memcache

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
)

// An input is what one connection sends, to memcached and to this server.
type input struct {
	in    string
	waits bool // memcached discards what follows and says nothing more until the connection ends
}

// corpus returns several hundred inputs: what clients send, what nobody should send, and what has
// broken servers.
func corpus() (c []input) {
	for _, in := range textGets() {
		c = append(c, input{in: in})
	}
	for _, in := range textLines() {
		c = append(c, input{in: in})
	}
	for _, in := range metaLines() {
		c = append(c, input{in: in})
	}
	for _, in := range counters() {
		c = append(c, input{in: in})
	}
	for _, in := range garbage() {
		c = append(c, input{in: in})
	}
	c = append(c, textStorage()...)
	return append(c, binaryFrames()...)
}

var k250, k251 = strings.Repeat("k", 250), strings.Repeat("k", 251)

func textGets() (ins []string) {
	for _, verb := range []string{"get", "gets", "gat 0", "gats 0"} {
		for _, keys := range []string{" id", " a b c", " a a", "  a   b ", " x\ty", " r\rr", " \xe3\x81\x8b", " \xff\xfe",
			" -", " 0", " " + k250, " " + k251,
			" a " + k251 + " b", "", " ", " missing", " a missing b", " a\x00b", " a HTTP/1.1"} {
			ins = append(ins, verb+keys+"\r\n")
		}
		ins = append(ins, verb+" id\n", " "+verb+" id\r\n", verb+" id\r\r\n", verb+" id\r\nversion\r\n"+verb+" a\r\n",
			verb+strings.Repeat(" id", 900)+"\r\n", verb+strings.Repeat(" ", 1000)+"a\r\n")
	}
	return append(ins, "GET id\r\n", "GET a b c\r\n", "Gets id\r\n", "GETS id\r\n", "GETS a "+k251+"\r\n", "GAT 0 id\r\n",
		"GATS 0 id\r\n", "get id\r\nGET id\r\n"[8:],
		"gat id\r\n", "gat x id\r\n", "gat -1 id\r\n", "gat 99999999999 id\r\n", "gat 1x id\r\n", "gat + id\r\n",
		"gats 0\r\n", "gat 2147483647 id\r\n",
		"gat 2147483648 id\r\n", "bget id\r\n", strings.Repeat(" ", 120)+"get a\r\n",
		"get"+strings.Repeat(" id", 7000)+"\r\n", "gat 0"+strings.Repeat(" id", 7000)+"\r\n")
}

func textLines() (ins []string) {
	ins = strings.SplitAfter("\r\n \r\nx\r\nxx\r\nboguscommand slkdsldkfjsd\r\n\x00\r\n\xff\r\ngett "+
		"id\r\nget\tid\r\nget,id\r\nge\r\nEND\r\nVALUE a 0 1\r\n"+
		"GET / HTTP/1.0\r\nPUT /asdf/asd/fasdfasdf/sadf HTTP/1.1\r\nDELETE HTTP/1.1\r\nPOST / HTTP/1.1\r\nHEAD /id "+
		"HTTP/1.1\r\nOPTIONS * HTTP/1.1\r\n"+
		"PRI * HTTP/2.0\r\nHTTP/1.1\r\nsomething HTTP/\r\nset HTTP/1.1\r\nversion HTTP/1.1\r\nfoo HTTP/1.1 bar\r\nfoo "+
		"XHTTP/1.1\r\n"+
		"version\r\nversion 1\r\nVERSION\r\nVersion\r\nquit\r\nquit 1\r\nQUIT\r\n"+
		"verbosity\r\nverbosity 0\r\nverbosity 0 noreply\r\nverbosity foo\r\nverbosity 0 x\r\nverbosity 0 1 "+
		"2\r\nverbosity noreply\r\nverbosity -1\r\nverbosity 4294967296\r\n"+
		"shutdown\r\nshutdown graceful\r\nwatch nonsense\r\nlru\r\nlru foo\r\nslabs\r\nslabs foo\r\nslabs reassign 1 "+
		"2\r\nslabs automove 0\r\nlru_crawler\r\n"+
		"lru_crawler enable\r\ncache_memlimit\r\ncache_memlimit 64\r\nconfig\r\nconfig get cluster\r\nconfig get "+
		"x\r\nconfig set cluster\r\nmisbehave\r\nextstore\r\nrefresh_certs\r\ndebugtime 1\r\n"+
		"flush_all\r\nflush_all 0\r\nflush_all noreply\r\nflush_all 0 noreply\r\nflush_all x\r\nflush_all x "+
		"noreply\r\nflush_all 1 2\r\nflush_all 1 2 3\r\nflush_all -1\r\n"+
		"delete\r\ntouch\r\nincr\r\ndecr\r\nDELETE missing\r\nIncr missing 1\r\n", "\r\n")
	ins = append(ins[:len(ins)-1], "\n", "version\n", "version\r\nquit\r\nget id\r\n",
		"get a\r\nget b\r\nversion\r\nmn\r\nverbosity 0\r\nnonsense\r\nget id\r\n",
		"version"+strings.Repeat(" ", 2039)+"\r\n", "version"+strings.Repeat(" ", 2040)+"\r\n",
		strings.Repeat("x", 2046)+"\r\n", strings.Repeat("x", 3000)+"\r\n",
		strings.Repeat("x", 300<<10)+"\r\n")
	for _, group := range []string{"", " ", " settings", " items", " slabs", " conns", " sizes", " reset", " detail",
		" detail on", " detail off", " detail dump",
		" detail x", " malloc", " nonsense", " cachedump", " cachedump 1 1", " extstore", " proxy", " items extra",
		" SETTINGS", " reset now"} {
		ins = append(ins, "stats"+group+"\r\n")
	}
	for _, line := range strings.Split("delete %s|delete %s 0|delete %s noreply|delete %s 0 noreply|delete %s 1|delete "+
		"%s 0 1|delete %s 0 1 2|touch %s 0|touch %s 0 noreply|"+
		"touch %s x|touch %s|touch %s 0 1|touch %s 0 1 2|incr %s 1|decr %s 1|incr %s 1 noreply|incr %s x|incr %s -1|incr "+
		"%s 18446744073709551615|"+
		"incr %s 18446744073709551616|incr %s|incr %s 1 2|incr %s 1 2 3", "|") {
		for _, key := range []string{"missing", "k", k251} {
			ins = append(ins, fmt.Sprintf(line, key)+"\r\n")
		}
	}
	return ins
}

func textStorage() (c []input) {
	add := func(ins ...string) {
		for _, in := range ins {
			c = append(c, input{in: in})
		}
	}
	for _, verb := range []string{"set", "add", "replace", "append", "prepend", "cas"} {
		cas := ""
		if verb == "cas" {
			cas = " 7"
		}
		for _, args := range []string{"k 0 0 5", "k 4294967295 0 5", "k 0 -1 5", "k 0 2147483647 5", "k x 0 5", "k 0 x 5",
			"k -1 0 5", "k 4294967296 0 5",
			k250 + " 0 0 5", k251 + " 0 0 5", "x\ty 0 0 5"} {
			add(verb+" "+args+cas+"\r\nhello\r\n", verb+" "+args+cas+" noreply\r\nhello\r\n")
		}
		for _, n := range []string{"-1", "x", "", "2147483647", "2147483646", "4294967296", "99999999999999999999", "5x"} {
			for _, quiet := range []string{"", " noreply"} {
				c = append(c, input{in: verb + " k 0 0 " + n + cas + quiet + "\r\n", waits: n == "4294967296"})
			}
		}
		add(verb+"\r\n", verb+" k\r\n", verb+" k 0 0\r\n", verb+" k 0 0 5"+cas+" 1 2 3\r\n", verb+" k 0 0 0"+cas+"\r\n\r\n",
			verb+" k 0 0 1"+cas+"\r\nxyz",
			verb+" k 0 0 1"+cas+"\r\nxyzget id\r\n", verb+" k 0 0 16"+cas+"\r\nget id\r\nget id\r\n\r\n",
			verb+" k 0 0 1"+cas+" noreply\r\nxyz",
			verb+" k 0 0 1048577"+cas+"\r\n"+strings.Repeat("x", 1048577)+"\r\n")
		c = append(c, input{in: verb + " k 0 0 2147483645" + cas + "\r\nget id\r\n", waits: true},
			input{in: verb + " k 0 0 100" + cas + "\r\nget id\r\n", waits: true})
	}
	add("set k 0 0 1048576\r\n" + strings.Repeat("x", 1048576) + "\r\n")
	for _, line := range []string{"ms k 5", "ms k 5 c", "ms k 5 q", "ms k 5 T0 F5 I", "ms k 5 ME", "ms k 5 MX",
		"ms k 5 v v", "ms k 5 z", "ms k 5 Tx", "ms " + k251 + " 5",
		"ms k 5 O" + strings.Repeat("o", 32), "ms aGVsbG8= 5 b", "ms * 5 b"} {
		add(line + "\r\nhello\r\n")
	}
	add("ms k\r\n", "ms\r\n", "ms k -1\r\n", "ms k x\r\n", "ms k 2147483647\r\n", "ms k 2\r\nxyzz", "ms k 0\r\n\r\n",
		"ms k 1048577\r\n"+strings.Repeat("x", 1048577)+"\r\n")
	return c
}

func metaLines() (ins []string) {
	for _, flags := range strings.Split("|v|k|f|c|t|s|h|l|u|q|q v|k v|s v|v s k|k s t c f h l u v|Oabc|O|O v k|O"+
		strings.Repeat("o", 31)+"|O"+strings.Repeat("o", 32)+
		"|N30|N30 v|R30 v|T30 v|T-1 v|Nx|Tx|Rx|N|T|Cx|C1 v|C1|Fx|F1 v|M v|MA v|MAB v|Jx|J1 v|Dx|D1 v|I v|L v|P v|E1 "+
		"v|Ex|x v|S v|S1|z|v v|k v k|\xff|1|A v|b|b v|v  k|v k |qv|vv", "|") {
		ins = append(ins, "mg k "+flags+"\r\n", "mg missing "+flags+"\r\n")
	}
	for _, flags := range []string{"", "v", "k", "k v", "O1 k v"} {
		ins = append(ins, "mg aGVsbG8= b "+flags+"\r\n")
	}
	ins = append(ins, "mg\r\n", "mg \r\n", "mg "+k250+" k v\r\n", "mg "+k251+" v\r\n", "mg hell b\r\n", "mg hello b\r\n",
		"mg * b\r\n", "mg = b\r\n", "mg aGVsbG8 b\r\n",
		"mg k "+strings.Repeat("v ", 17)+"\r\n", "mg k c f h k l q s t u v O1 I L P N1 T1\r\n",
		"mg k b c f h k l q s t u v O1 I L P N1 T1 R1 C1 D1\r\n", "mg k v v c f h k l q s t u O1 I L P N1 T1 R1 C1 D1\r\n",
		"mg k v v c f h k l q s t u O1 I L P N1   \r\n", "MG k v\r\n",
		"mg a v q\r\nmg b v q\r\nmn\r\n", "mn\r\n", "mn x\r\n", "MN\r\n", "mx k\r\n", "m\r\n", "me k\r\n", "me missing\r\n",
		"me\r\n", "me aGVsbG8= b\r\n", "me * b\r\n",
		"me "+k251+"\r\n", "me k x\r\n")
	for _, verb := range []string{"md", "ma"} {
		for _, args := range []string{"missing", "missing q", "missing k", "missing k Oo", "missing v", "k", "k v", k251,
			"missing O" + strings.Repeat("o", 32),
			"aGVsbG8= b k", "aGVsbG9v b k", "missing D1 J1", "missing MI", "missing z", "missing v v", "missing \xff",
			"missing Tx", "missing Nx", "missing Cx", "missing Fx", "missing Dx",
			"missing Jx", "hell b", "* b", k251 + " z", "missing z Tx",
			"missing k b c f h k l q s t u v O1 I L P N1 T1 R1 C1 D1", "missing b c f h k l q s t u v O1 I L P N1 T1 R1 C1"} {
			ins = append(ins, verb+" "+args+"\r\n")
		}
		ins = append(ins, verb+"\r\n")
	}
	mistakes := []string{"v v", "z", "b", "Nx", "Fx", "Jx", "MX", "O" + strings.Repeat("o", 32)}
	for _, verb := range []string{"mg", "md", "ma"} {
		for _, first := range mistakes {
			for _, second := range mistakes {
				ins = append(ins, verb+" hell "+first+" "+second+"\r\n")
			}
		}
		ins = append(ins, verb+" hell b Jx z"+strings.Repeat(" v", 17)+"\r\n")
	}
	return ins
}

// counters ask for the next numbers of count, and those of uuid, which is no number.
func counters() (ins []string) {
	for _, key := range []string{"count", "uuid", "missing"} {
		for _, args := range []string{"1", "2", "65536", "0", "65537", "18446744073709551615", "18446744073709551616", "x",
			"-1", "", "1 noreply", "1 1", "1 1 1", "x noreply", "1  "} {
			ins = append(ins, "incr "+key+" "+args+"\r\n", "decr "+key+" "+args+"\r\n")
		}
		for _, flags := range strings.Split("|v|t|c|k|O|Oo|O1 k t c v|v c t k O1|q|q v|q k|s|f|h|l|u|v v|z|b v|D2 "+
			"v|D65536 v|D0 v|D65537|Dx|D|D18446744073709551615|D18446744073709551616|"+
			"MI|M+ v|MD|M- v|Mi|Md|MX|M|MII|C0 v|C1|C1 k q|C1 MX|Cx|D3 C1|J5 v|T60 v|T60 t|Tx|I|P|L|D2 q v|MI D5 v q|D2 v t "+
			"c k O9 MI", "|") {
			ins = append(ins, "ma "+key+" "+flags+"\r\n")
		}
		for _, op := range []byte{0x05, 0x15, 0x06, 0x16} {
			for _, delta := range []uint64{1, 2, 65536, 0, 65537, 1 << 63} {
				extras := binary.BigEndian.AppendUint64(nil, delta)
				frame := frameOf(op, string(extras)+"\x00\x00\x00\x00\x00\x00\x00\x07\xff\xff\xff\xff", key, "")
				ins = append(ins, string(frame))
				frame[23] = 1
				ins = append(ins, string(frame))
			}
		}
	}
	return append(ins, "incr count 1\r\nincr count 5 noreply\r\nincr count 2\r\nma count v\r\n",
		"ma count q D7\r\nma count v\r\n", "ma Y291bnQ= b v k\r\n")
}

func garbage() (ins []string) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []string{"get", "gets", "id", "a", "0", "-1", "noreply", "mg", "v", "k", "\x00", "\xff", "  ", "delete", "x",
		"stats", "5", "touch", "incr",
		"verbosity", "END", "b", "mn", "version", "\t", "99999999999"}
	for range 200 {
		var line []string
		for range 1 + r.IntN(6) {
			line = append(line, words[r.IntN(len(words))])
		}
		ins = append(ins, strings.Join(line, " ")+"\r\n")
	}
	return ins
}

func binaryFrames() (c []input) {
	zero := strings.Repeat("\x00", 16)
	for op := range 256 {
		if op == 0x0a || op > 0x26 && op%50 != 5 {
			continue
		}
		for _, f := range [][3]string{{"", "", ""}, {"", "id", ""}, {"", "missing", ""}, {zero[:4], "id", ""},
			{zero[:4], "", ""}, {zero[:8], "k", "hello"}, {"", "k", "hello"},
			{zero + "\xff\xff\xff\xff", "missing", ""}} {
			does := opcodes[op].does
			c = append(c, input{
				in: string(frameOf(byte(op), f[0], f[1], f[2])),
				waits: (does == unknown || does == logIn || does == listMechanisms) && f != [3]string{} || does == giveStats &&
					f[2] != "",
			})
		}
	}
	for _, group := range []string{"settings", "items", "slabs", "conns", "sizes", "reset", "detail", "detail on",
		"detail off", "detail dump", "nonsense", "resetx"} {
		c = append(c, input{in: string(frameOf(0x10, "", group, ""))})
	}
	c = append(c, input{in: string(frameOf(0x00, "", k250, ""))}, input{in: string(frameOf(0x00, "", k251, ""))},
		input{in: string(frameOf(0x0c, "", k250, ""))})
	batch := string(frameOf(0x0d, "", "a", "")) + string(frameOf(0x0d, "", "b", "")) + string(frameOf(0x0a, "", "", ""))
	c = append(c, input{in: batch},
		input{in: batch + batch + string(frameOf(0x0b, "", "", "")) + string(frameOf(0x07, "", "", ""))})
	// key, extras, body
	for _, lens := range [][3]int{{10, 0, 2}, {0xffff, 10, 9}, {1, 8, 0}, {200, 200, 250}, {1, 8, 0xffffffff},
		{1, 8, 0x00200000}} {
		for _, op := range []byte{0x00, 0x01, 0x0c, 0x12, 0x55} {
			b := frameOf(op, "", "", "")
			b[2], b[3], b[4] = byte(lens[0]>>8), byte(lens[0]), byte(lens[1])
			b[8], b[9], b[10], b[11] = byte(lens[2]>>24), byte(lens[2]>>16), byte(lens[2]>>8), byte(lens[2])
			c = append(c, input{in: string(b), waits: true})
		}
	}
	return c
}
