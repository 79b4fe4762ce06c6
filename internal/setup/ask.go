package setup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Question is asked until Set takes the answer.
type Question struct {
	Name    string
	Text    string        // one line or more
	Answer  string        // it is not asked if this is possible; empty = it is
	Default func() string // the answer that Enter gives
	Set     func(answer string) error
}

// ErrEnded is returned if the input ended, or the context did, before all questions were answered.
var ErrEnded = errors.New("the questions were not answered")

// Ask asks the questions. A goroutine reads from in; after an error it may go on until a line comes.
func Ask(ctx context.Context, in io.Reader, out io.Writer, questions []Question) error {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for _, q := range questions {
		if q.Answer != "" {
			err := q.Set(q.Answer)
			if err == nil {
				continue
			}
			q.refuse(out, err)
		}
		fmt.Fprintf(out, "\n%s\n", q.Text)
		if err := q.ask(ctx, lines, out); err != nil {
			return err
		}
	}
	return nil
}

// refuse says why an answer is not possible.
func (q Question) refuse(out io.Writer, err error) {
	fmt.Fprintf(out, "  not possible: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
}

func (q Question) ask(ctx context.Context, lines <-chan string, out io.Writer) error {
	for {
		fmt.Fprintf(out, "%s [%s]: ", q.Name, q.Default())
		var line string
		var ok bool
		select {
		case line, ok = <-lines:
		case <-ctx.Done():
		}
		if !ok {
			fmt.Fprintln(out)
			return ErrEnded
		}
		if line = strings.TrimSpace(line); line == "" {
			line = q.Default()
		}
		err := q.Set(line)
		if err == nil {
			return nil
		}
		q.refuse(out, err)
	}
}
