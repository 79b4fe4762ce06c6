package issuer

import (
	"fmt"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// ofLanes are the kinds whose ids are texts that are made of the ids of the lanes.
var ofLanes = map[string]generator.TextKind{
	kinds.UUID7: generator.UUID7, kinds.ULID: generator.ULID, kinds.ObjectID: generator.ObjectID,
}

// texts are the kinds of id that are texts, as far as a client has asked for them.
type texts struct {
	sync.Mutex
	made map[string]Kind // by the name of the kind
}

// Kind returns what issues the ids of a definition, which must not be a sequence. Definitions that differ only in
// their names have the same Kind. The error is that of CheckKind.
//
// An id of a text kind, except UUIDs of version 4, is made of an id of the lanes, then issued to no other client.
// So it is refused when ids are, with the same words, and the texts of one lane are in the order in which they were
// issued. UUIDs of version 4, 122 random bits and no time, are issued even while ids are refused.
func (is *Issuer) Kind(def kinds.Definition) (Kind, error) {
	if def.Kind == kinds.Snowflake {
		return is.snowflake(LayoutOf(def, is.c.Layout))
	}
	is.texts.Lock()
	defer is.texts.Unlock()
	if k := is.texts.made[def.Kind]; k != nil {
		return k, nil
	}
	var k Kind
	if def.Kind == kinds.UUID4 {
		k = newUUID4()
	} else if err := CheckKind(def, is.c.Layout, is.c.RunAhead); err != nil {
		return nil, err
	} else if k, err = newText(is, ofLanes[def.Kind], kernelSeed); err != nil {
		return nil, err
	}
	if is.texts.made == nil {
		is.texts.made = map[string]Kind{}
	}
	is.texts.made[def.Kind] = k
	return k, nil
}

// CheckKind returns why an Issuer of this layout and run-ahead cannot issue the ids of a definition that is not a
// sequence, or nil. A text may have too few bits for worker id and sequence: 54 are in an ObjectID. The ids of another
// layout need some milliseconds of run-ahead.
func CheckKind(def kinds.Definition, own generator.Layout, runAhead time.Duration) error {
	if def.Kind == kinds.Snowflake {
		return checkSnowflake(own, LayoutOf(def, own), runAhead)
	}
	k, ok := ofLanes[def.Kind]
	switch {
	case ok:
		_, err := generator.NewTextLayout(k, own)
		return err
	case def.Kind != kinds.UUID4:
		return fmt.Errorf("issuer: %q is not a kind of id that lanes issue", def.Kind)
	}
	return nil
}

// LayoutOf returns the layout of a snowflake, where own is that of the Issuer.
func LayoutOf(def kinds.Definition, own generator.Layout) generator.Layout {
	if def.Layout == "" {
		return own
	}
	l, _ := generator.ParseLayout(def.Layout) // known, or it would not be a Definition
	return l
}
