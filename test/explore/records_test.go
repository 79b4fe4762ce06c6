package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// read reads a table of testdata. A line is the name of a record, one with a tab a field of it, one with # a comment.
func read[T any](text string, fields func(*T) map[string]any) (all []T) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		field, value := "name", line
		if rest, is := strings.CutPrefix(line, "\t"); is {
			field, value, _ = strings.Cut(rest, " ")
		} else if strings.HasPrefix(line, "#") {
			continue
		} else {
			all = append(all, *new(T))
		}
		set(fields(&all[len(all)-1])[field], value)
	}
	return all
}

// set sets what a pointer leads to. Texts may be as in Go, kinds are Kill,Pause.
func set(at any, value string) {
	var err error
	switch at := at.(type) {
	case *string:
		if *at = value; value[0] == '"' {
			*at, err = strconv.Unquote(value)
		}
	case *bool:
		*at, err = strconv.ParseBool(value)
	case *int64:
		*at, err = strconv.ParseInt(value, 10, 64)
	case *[]Kind:
		for name := range strings.SplitSeq(value, ",") {
			*at = append(*at, Kind(slices.Index(kindNames, "\t"+name)))
		}
		if slices.Contains(*at, Kind(255)) {
			err = fmt.Errorf("it has no kind of choice")
		}
	case *Bound: // 2+1 before 2600 of Kill,Pause last Kill
		words := strings.Fields(value)
		_, err = fmt.Sscanf(words[0], "%d+%d", &at.Faults, &at.Preemptions)
		for pair := range slices.Chunk(words[1:], 2) {
			set(map[string]any{"before": &at.Begin, "of": &at.Kinds, "last": &at.Last}[pair[0]], pair[1])
		}
	default:
		err = fmt.Errorf("there is no such field")
	}
	if err != nil {
		panic(fmt.Sprintf("%q: %v", value, err))
	}
}
