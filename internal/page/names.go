package page

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// NameCounts are what is counted of a name. All but Slowest only grow.
type NameCounts struct {
	Issued, Refused uint64
	Answers         uint64        // on the ports of the engine, estimated
	Took            time.Duration // by these together
	Slowest         time.Duration // of those that were measured since the last sample of a NameHistory
}

// minus returns how much the counts grew since earlier ones. A name that took another one's place began anew.
func (n NameCounts) minus(before NameCounts) NameCounts {
	return NameCounts{n.Issued - min(before.Issued, n.Issued), n.Refused - min(before.Refused, n.Refused),
		n.Answers - min(before.Answers, n.Answers), n.Took - min(before.Took, n.Took), n.Slowest}
}

const (
	nameEvery = 20 * time.Second
	// names are remembered for a minute: 1.3 MB for 10,000 of them.
	nameSamples = int(time.Minute/nameEvery) + 1
)

// A NameHistory remembers what names had counted in the last minute. Run writes it; any goroutine may read it.
type NameHistory struct {
	mu   sync.Mutex
	ring [nameSamples]struct {
		at     time.Time
		counts []NameCounts // by the number of the name
	}
	n int // samples so far
}

// Run takes a sample at once and then each 20 s, until ctx ends. next returns how long it is until the next
// moment of a period. read appends to what it is given.
func (h *NameHistory) Run(ctx context.Context, next func(time.Duration) time.Duration,
	read func([]NameCounts) []NameCounts) {
	timer := time.NewTimer(next(nameEvery))
	defer timer.Stop()
	for {
		h.add(time.Now(), read)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(next(nameEvery))
		}
	}
}

func (h *NameHistory) add(now time.Time, read func([]NameCounts) []NameCounts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.ring[h.n%nameSamples]
	s.at, s.counts = now, read(s.counts[:0])
	h.n++
}

// Lately sets how much the counts of names have grown in the last minute, and returns how long that is; 0 = that is
// not known yet. A name that is newer has counted from 0.
func (h *NameHistory) Lately(now time.Time, list []Name) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n == 0 {
		return 0
	}
	first := max(0, h.n-nameSamples)
	oldest := &h.ring[first%nameSamples]
	for i := range list {
		var before NameCounts
		if i < len(oldest.counts) {
			before = oldest.counts[i]
		}
		list[i].Lately = list[i].NameCounts.minus(before)
		for k := first + 1; k < h.n; k++ {
			if counts := h.ring[k%nameSamples].counts; i < len(counts) {
				list[i].Lately.Slowest = max(list[i].Lately.Slowest, counts[i].Slowest)
			}
		}
	}
	return now.Sub(oldest.at)
}

const (
	pageOfNames  = 20  // names that the page shows at once: a phone's reader scrolls past them
	plainNames   = 100 // the same in plain text
	fewNames     = 5   // that nobody needs to search
	maxSearch    = 64  // bytes, as of a name
	shortestTime = 5 * time.Second
)

// An order is how names may be sorted.
type order struct {
	key, title string
	less       func(a, b *Name) int
}

// falling sorts by what is larger.
func falling[T cmp.Ordered](of func(*Name) T) func(a, b *Name) int {
	return func(a, b *Name) int { return cmp.Compare(of(b), of(a)) }
}

// orders are all; the first one is that of who has not chosen. Names that are equal stay in the order of their
// declaration.
var orders = []order{
	{"", "trouble first", falling(func(n *Name) int {
		switch {
		case n.Refusal != "":
			return 2
		case n.Lately.Refused > 0:
			return 1
		}
		return 0
	})},
	{"name", "name", func(a, b *Name) int { return strings.Compare(a.Name, b.Name) }},
	{"rate", "ids a second", falling(func(n *Name) uint64 { return n.Lately.Issued })},
	{"issued", "ids issued", falling(func(n *Name) uint64 { return n.Issued })},
	{"refused", "refused", falling(func(n *Name) uint64 { return n.Lately.Refused })},
	{"latency", "slowest", falling(func(n *Name) time.Duration { return n.Lately.mean() })},
	{"left", "ends soonest", func(a, b *Name) int { return cmp.Compare(a.endsIn(), b.endsIn()) }},
}

// mean is how long an answer took.
func (n NameCounts) mean() time.Duration { return n.Took / time.Duration(max(n.Answers, 1)) }

// endsIn is in how many days a name ends, as far as this daemon knows.
func (n *Name) endsIn() float64 {
	switch q := n.Sequence; {
	case n.Over:
		return 0
	case q == nil || q.DaysLeft == 0:
		return farAway
	default:
		return q.DaysLeft
	}
}

// A listing is the part of the names that somebody asked for.
type listing struct {
	search string
	order  order
	names  []*Name
	from   int // of the first one shown, from 0
	found  int // by the search
	size   int // at once
}

// lists finds the names that a query asks for: q= is a part of their names or kinds, sort= their order, page= from 1.
// What it cannot read counts as left out.
func (v *View) lists(query url.Values, size int) (l listing) {
	l.size, l.order = size, orders[0]
	l.search = strings.TrimSpace(query.Get("q"))
	for _, o := range orders {
		if o.key == query.Get("sort") {
			l.order = o
		}
	}
	if len(l.search) > maxSearch {
		l.search = strings.ToValidUTF8(l.search[:maxSearch], "")
	}
	part := strings.ToLower(l.search)
	for i := range v.Names {
		if n := &v.Names[i]; part == "" || strings.Contains(strings.ToLower(n.Name+" "+n.described()), part) {
			l.names = append(l.names, n)
		}
	}
	slices.SortStableFunc(l.names, l.order.less)
	l.found = len(l.names)
	page, _ := strconv.Atoi(query.Get("page"))
	l.from = (min(max(page, 1), max(1, (l.found+size-1)/size)) - 1) * size
	l.names = l.names[l.from:min(l.from+size, l.found)]
	return l
}

// link leads to another page of the same names; empty = there is none.
func (l *listing) link(by int) string {
	from := l.from + by*l.size
	if from < 0 || from >= l.found {
		return ""
	}
	q := url.Values{"page": {strconv.Itoa(from/l.size + 1)}}
	if l.search != "" {
		q.Set("q", l.search)
	}
	if l.order.key != "" {
		q.Set("sort", l.order.key)
	}
	return "?" + q.Encode() + "#names"
}

// says which of the names are shown; empty = all.
func (l *listing) says(all int) string {
	switch {
	case all == 0 || l.found == all && l.found <= l.size:
		return ""
	case l.found == 0:
		return "None of " + number(uint64(all)) + " names fits."
	}
	text := number(uint64(l.from+1)) + "–" + number(uint64(l.from+len(l.names))) + " of " + number(uint64(l.found))
	if l.found < all {
		text += " that fit, " + number(uint64(all)) + " in all"
	}
	return text
}

// fields are those of the names' section.
func (l *listing) fields(d *document, f fields) {
	f["names"] = each(l.names, d.name)
	f["shown names"], f["before"], f["after"] = l.says(len(d.Names)), l.link(-1), l.link(+1)

	f["many names"], f["search"] = len(d.Names) > fewNames, l.search
	f["orders"] = each(orders, func(o order) fields {
		return fields{"key": o.key, "title": o.title, "chosen": o.key == l.order.key}
	})
}

// rate is how many ids of a name were issued a second.
func (v *View) rate(n *Name) string {
	if v.Lately < shortestTime {
		return "–"
	}
	return amount(float64(n.Lately.Issued) / v.Lately.Seconds())
}

// refused says how many requests for a name got an error: since the start, and in the last minute.
func (n *Name) refused() string {
	if n.Lately.Refused == 0 {
		return number(n.Refused)
	}
	return number(n.Refused) + ", " + number(n.Lately.Refused) + " lately"
}

// latency says how long answers took in the last minute: on average, and the slowest one that was measured.
func (n *Name) latency() string {
	if n.Lately.Answers == 0 {
		return "–"
	}
	return span(n.Lately.mean()) + ", max " + span(n.Lately.Slowest)
}

// name is a row of the table.
func (d *document) name(n *Name) fields {
	f := fields{"class": "good", "name": n.Name, "kind": n.described(), "issued": number(n.Issued), "rate": d.rate(n),
		"refused": n.refused(), "latency": n.latency(), "last": "", "left": "", "leader": "", "refusal": n.Refusal}
	switch {
	case n.Refusal != "":
		f["class"] = "urgent"
	case n.Lately.Refused > 0:
		f["class"] = "soon"
	}
	if q := n.Sequence; q != nil {
		f["last"], f["left"], f["leader"] = q.last(), q.lasts(), q.Leader
	}
	return f
}
