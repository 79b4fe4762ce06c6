// Package program runs a recipe for the tests. Each line of the input is "insert N" or "bulk N".
package program

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Run ends with the input. It prints "done ID" or "error TEXT" for each line.
func Run(create func(context.Context, string) (int64, error), createMany func(context.Context, []string) error) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var what string
		var n int
		fmt.Sscan(lines.Text(), &what, &n)
		var last any = ""
		var err error
		if what == "bulk" {
			err = createMany(context.Background(), slices.Repeat([]string{"tea"}, n))
		} else {
			for ; n > 0 && err == nil; n-- {
				last, err = create(context.Background(), "tea")
			}
		}
		if err != nil {
			fmt.Println("error", strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Println("done", last)
		}
	}
}
