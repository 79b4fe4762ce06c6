package server

import "testing"

// A busy session has done enough with each byte that it answers.
type busy struct{}

func (busy) Feed(_ int64, in, out []byte) (int, []byte, error) {
	if len(in) == 0 {
		return 0, out, nil
	}
	return 1, append(out, in[0]), enough{}
}

type enough struct{}

func (enough) Error() string { return "" }
func (enough) Enough() bool  { return true }

// A session that has done enough is asked again only in another turn, and its connection is not closed.
func TestEnoughEndsTheTurn(t *testing.T) {
	var s Session = busy{}
	n, reply, full, err := Converse(&s, 0, []byte("abc"), nil)
	if n != 1 || string(reply) != "a" || !full || err != nil {
		t.Errorf("consumed %d, replied %q, full %v, error %v", n, reply, full, err)
	}
}
