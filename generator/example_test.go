package generator_test

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
)

// One process that owns worker id 7 and whose clock never goes back between its runs needs nothing
// but this.
func Example() {
	now := time.Date(2024, 11, 20, 0, 0, 0, 0, time.UTC).UnixMilli() // time.Now().UnixMilli()
	g, err := generator.NewSnowflake(generator.Options{
		Layout: generator.Katsubushi(), Worker: 7,
		Lo: now, Hi: math.MaxInt64,
	})
	if err != nil {
		panic(err)
	}
	r, err := g.Take(now, now+1000, 3) // up to a second ahead of the clock
	if err != nil {
		panic(err)
	}
	for i := range r.N {
		fmt.Println(r.First + uint64(i)*r.Stride)
	}
	// Output:
	// 1308582582681628672
	// 1308582582681628673
	// 1308582582681628674
}

func ExampleLayout_Decompose() {
	p := generator.Twitter().Decompose(1541815603606036480)
	fmt.Println(p.Time.Format(time.RFC3339Nano), p.Worker>>5, p.Worker&31, p.Sequence)
	// Output: 2022-06-28T16:07:40.105Z 11 26 0
}

func ExampleLayout_CheckTime() {
	fmt.Println(generator.Katsubushi().CheckTime(time.Date(2090, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()))
	// Output:
	// generator: 2090-01-01T00:00:00Z is past the time field of layout katsubushi, which ends at 2084-09-06T15:47:35Z
}

// A window ends ids, not a timer: what the lease does not reach is not issued, however late it is
// asked for.
func ExampleSnowflake_Extend() {
	lo := int64(1732060800000)
	g, err := generator.NewSnowflake(generator.Options{Layout: generator.Katsubushi(), Lo: lo, Hi: lo + 59_999})
	if err != nil {
		panic(err)
	}
	_, err = g.Take(lo+60_000, lo+60_000, 1)
	fmt.Println(errors.Is(err, generator.ErrWindow))
	if err := g.Extend(lo+60_000, lo+119_999); err != nil {
		panic(err)
	}
	_, err = g.Take(lo+60_000, lo+60_000, 1)
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}
