package steps

import (
	"errors"
	"testing"
	"time"
)

// sums are calls of every sort of argument and result.
func sums(*testing.T) Calls {
	sum, began := 0, time.Now()
	return Calls{
		"add": func(more ...int) { // another goroutine's work belongs to the step
			go func() {
				for _, n := range more {
					sum += n
				}
			}()
		},
		"sum":   func() int { return sum },
		"piles": map[string]*int{"a": new(int), "b": new(int)},
		"put": func(pile *int, n int) int {
			*pile += n
			return *pile
		},
		"words": func(words []string) int { return len(words) },
		"sleep": time.Sleep,
		"say": func(text string, err bool) (string, error) {
			if err {
				return "", errors.New(text)
			}
			return text + "\nat " + time.Since(began).String(), nil
		},
	}
}

func TestSteps(t *testing.T) { Run(t, "testdata/sums.txt", sums) }
