package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ordinalPrefix as -worker-id means the number of this host in its StatefulSet.
const ordinalPrefix = "ordinal"

// setOrdinal takes ordinal, or ordinal+OFFSET: the worker id is the digits at the end of the host name,
// and the offset.
func (o *options) setOrdinal(v string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	id, err := ordinalOf(host, strings.TrimPrefix(v, ordinalPrefix))
	if err != nil {
		return err
	}
	o.WorkerIDs, o.Ordinal = append(o.WorkerIDs, id), true
	return nil
}

// ordinalOf returns the number behind the last "-" of a host name, without its domain, plus the offset:
// empty, or "+" and a number.
func ordinalOf(host, offset string) (uint64, error) {
	var add uint64
	if offset != "" {
		digits, ok := strings.CutPrefix(offset, "+")
		n, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil {
			return 0, errors.New("ordinal or ordinal+OFFSET is allowed, OFFSET a number")
		}
		add = n
	}
	name, _, _ := strings.Cut(host, ".")
	i := strings.LastIndexByte(name, '-')
	n, err := strconv.ParseUint(name[i+1:], 10, 32)
	if i < 0 || err != nil {
		return 0, fmt.Errorf("this host is called %q: a name that ends in - and a number is needed, such as a StatefulSet "+
			"gives to its pods", host)
	}
	return n + add, nil
}
