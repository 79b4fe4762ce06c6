package resp

import (
	"math"
	"strings"
	"testing"
)

// TestParseInt: at the ends of 64 bits, and one beyond them.
func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "-7": -7, "9223372036854775806": math.MaxInt64 - 1, "9223372036854775807": math.MaxInt64,
		"-9223372036854775807": math.MinInt64 + 1, "-9223372036854775808": math.MinInt64,
	} {
		if v, ok := parseInt([]byte(text)); !ok || v != want {
			t.Errorf("%s: %d, %t", text, v, ok)
		}
	}
	const wrong = "9223372036854775808,-9223372036854775809,9223372036854775810,18446744073709551615," +
		"18446744073709551616,-18446744073709551616,99999999999999999999,,-,-0,00,07,-07,+7, 7,7 ,7x,x7,:,/,--7"
	for text := range strings.SplitSeq(wrong, ",") {
		if v, ok := parseInt([]byte(text)); ok {
			t.Errorf("%q: %d", text, v)
		}
	}
}

// TestClientInfoIsWhatRedisPyReads: it makes numbers of these fields, whether they are there or not.
func TestClientInfoIsWhatRedisPyReads(t *testing.T) {
	for _, command := range []string{"CLIENT INFO\r\n", "CLIENT LIST\r\n"} {
		_, out, err := newSession(newFake()).Feed(1, []byte(command), nil)
		if err != nil {
			t.Fatal(err)
		}
		fields := map[string]string{}
		for pair := range strings.FieldsSeq(string(out)) {
			name, value, _ := strings.Cut(pair, "=")
			fields[name] = value
		}
		const numbers = "id age idle db sub psub multi qbuf qbuf-free obl argv-mem oll omem tot-mem"
		for name := range strings.FieldsSeq(numbers) {
			if _, ok := parseInt([]byte(fields[name])); !ok {
				t.Errorf("%q: %s=%q", command, name, fields[name])
			}
		}
	}
}
