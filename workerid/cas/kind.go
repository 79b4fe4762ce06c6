package cas

import (
	"errors"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A Kind is what the stores of one kind have in common, and makes them.
type Kind struct {
	Protocol
	// Driver makes a driver, which does not connect yet. lasting: it is a daemon's and not an operator's.
	// timeout is that of one call.
	Driver func(s Settings, t Target, timeout time.Duration, lasting bool) Driver
	// Reading is how many times the time-out of a call a Load may take; see Config.Reading. 0 = 1
	Reading time.Duration
}

// Open makes a Store. It does not connect yet, so the servers need not be running. timeout is for one
// call; 0 = DefaultTimeout. The error is that of Settings.Check and ReadSecrets.
func (k Kind) Open(s Settings, timeout time.Duration) (*Store, error) {
	if err := s.Check(k.Protocol); err != nil {
		return nil, err
	}
	c, err := k.Config(s, timeout, true)
	if err != nil {
		return nil, err
	}
	return Open(c)
}

// Backend is Open for those who know no kind of store.
func (k Kind) Backend(s Settings, timeout time.Duration) (workerid.Backend, error) {
	store, err := k.Open(s, timeout)
	if err != nil {
		return nil, err // not a nil *Store in an interface
	}
	return store, nil
}

// Admin makes the operator's interface to the pool. It needs the URL, and all other settings only for
// Init.
func (k Kind) Admin(s Settings, timeout time.Duration) (workerid.Admin, error) {
	c, err := k.Config(s, timeout, false)
	if err != nil {
		return nil, err
	}
	a, err := OpenAdmin(c)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Config returns the settings of a Store or an Admin, with a driver of its own.
func (k Kind) Config(s Settings, timeout time.Duration, lasting bool) (Config, error) {
	s.Terms = s.WithDefaults() // the driver has them too
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	if s.Boot == nil {
		s.Boot = clock.Boot
	}
	t, problems := s.Target(k.Protocol)
	if err := errors.Join(problems.Err(), s.ReadSecrets()); err != nil {
		return Config{}, err
	}
	return Config{
		Terms: s.Terms, Driver: k.Driver(s, t, timeout, lasting), Kind: k.Scheme, Where: t.Where(), Path: t.Key() + "/",
		Addr: s.Addr, Boot: s.Boot, Timeout: timeout, Reading: k.Reading * timeout,
	}, nil
}
