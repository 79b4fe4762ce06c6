package grpcapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestScenes plays testdata/calls.script: what clients call, and what they get.
func TestScenes(t *testing.T) {
	script.Run(t, "testdata/calls.script", func(t *testing.T, play func(script.Do)) {
		s := &scene{t: t, conns: map[string]*grpc.ClientConn{}, begun: map[string]chan string{},
			watches: map[string]healthpb.Health_WatchClient{},
			as:      context.Background()}
		play(func(words []string) string { return s.calls().Do(t, words) })
	})
}

// A scene has a server and a client.
type scene struct {
	*fixture
	t       *testing.T
	address string
	conn    *grpc.ClientConn
	conns   map[string]*grpc.ClientConn
	as      context.Context // has the metadata of calls
	begun   map[string]chan string
	cancel  context.CancelFunc
	watches map[string]healthpb.Health_WatchClient
	people  *users.Directory
	token   string
}

// server starts one: which holds calls, or has a limit of connections, or logins of ann, bob and a token of ann's.
func (s *scene) server(settings ...string) {
	s.fixture = newFixture(s.t, func(c *Config) {
		for _, setting := range settings {
			name, value, _ := strings.Cut(setting, "=")
			switch name {
			case "connections":
				c.Limits.MaxConnections, _ = strconv.ParseInt(value, 10, 64)
			case "logins":
				c.Login = s.logins()
			}
		}
	})
	if slices.Contains(settings, "holds") {
		s.hold = make(chan struct{})
	}
	s.address = s.serve()
	s.connect("first")
}

// connect connects a client, which makes the calls from now on.
func (s *scene) connect(name string) {
	s.conn = dial(s.t, s.address, nil)
	s.conns[name] = s.conn
}

// logins lets in ann and bob, whose password is "se:cret", and who has ann's token.
func (s *scene) logins() func(context.Context, netip.Addr, users.Credentials) (*users.Account, error) {
	s.people = new(users.Directory)
	accounts, list := map[string]*users.Account{}, []users.User(nil)
	for name, text := range map[string]string{"ann": "i*=get", "bob": "orders=get;*=incr,admin"} {
		rights, err := users.ParseRights(text)
		if err != nil {
			s.t.Fatal(err)
		}
		u, token, err := users.User{Name: name, Rights: rights}.WithToken()
		if err != nil {
			s.t.Fatal(err)
		}
		if list = append(list, u); name == "ann" {
			s.token = token
		}
	}
	s.people.Replace(list)
	for _, name := range []string{"ann", "bob"} {
		accounts[name] = s.people.Account(name)
	}
	return func(_ context.Context, from netip.Addr, c users.Credentials) (*users.Account, error) {
		switch {
		case from.String() != "127.0.0.1":
			return nil, fmt.Errorf("from %v", from)
		case string(c.User) == "busy":
			return nil, users.ErrBusy
		case c.Token == nil && string(c.Password) == "se:cret":
			return accounts[string(c.User)], nil
		}
		return s.people.Bearer(c.Token), nil
	}
}

// ofConnection is what libraries and systems say when a connection ends.
var ofConnection = regexp.MustCompile(`(connection error|error reading|(read|write) tcp).*`)

// fetch fetches n ids, or one with Fetch if n is 0.
func (s *scene) fetch(n uint32) string {
	c := katsubushipb.NewGeneratorClient(s.conn)
	ctx, cancel := context.WithCancel(s.as)
	defer cancel()
	if n == 0 {
		got, err := c.Fetch(ctx, nil)
		if err != nil {
			return ofConnection.ReplaceAllString(says(err), "the connection ends")
		}
		return fmt.Sprint("id ", got.GetId())
	}
	got, err := c.FetchMulti(ctx, &katsubushipb.FetchMultiRequest{N: n})
	if err != nil {
		return says(err)
	}
	for i, v := range got.Ids {
		if v != got.Ids[0]+uint64(i) {
			return fmt.Sprint("in no order: ", got.Ids)
		}
	}
	return fmt.Sprintf("%d ids from %d on", len(got.Ids), got.Ids[0])
}

func (s *scene) invoke(method string, message []byte) string {
	var got []byte
	if err := s.conn.Invoke(soon(s.t), method, &message, &got, grpc.ForceCodecV2(raw{})); err != nil {
		return says(err)
	}
	return fmt.Sprintf("%q", got)
}

func (s *scene) calls() script.Calls {
	health := func() healthpb.HealthClient { return healthpb.NewHealthClient(s.conn) }
	return script.Calls{
		"server":   s.server,
		"connects": s.connect,
		"as": func(lines ...string) { // who calls from now on; a login is what is encoded
			md := metadata.MD{}
			for _, line := range lines {
				name, value, _ := strings.Cut(line, " ")
				if login, ok := strings.CutPrefix(value, "login "); ok {
					value = "Basic " + base64.StdEncoding.EncodeToString([]byte(login))
				}
				md.Append(name, strings.NewReplacer("TOKEN", s.token, "LONG", strings.Repeat("y", 2*maxHeaders)).Replace(value))
			}
			s.as = metadata.NewOutgoingContext(context.Background(), md)
		},
		"fetch":    func() string { return s.fetch(0) },
		"fetch-ok": func() bool { return strings.HasPrefix(s.fetch(0), "id ") },
		"fetches":  s.fetch,
		"begin": func(name string) {
			said := make(chan string, 1)
			each := *s
			each.as, s.cancel = context.WithCancel(s.as)
			go func() { said <- each.fetch(0) }()
			s.begun[name] = said
		},
		"cancels": func() { s.cancel() }, // what was begun last
		"ended":   func(name string) string { return <-s.begun[name] },
		"call": func(method, message string) string {
			text, err := strconv.Unquote(`"` + message + `"`)
			if err != nil {
				s.t.Fatal(err)
			}
			return s.invoke(method, []byte(text))
		},
		"large": func(size int) string { // with a field that nobody knows
			message := protowire.AppendTag(nil, 2, protowire.BytesType)
			message = protowire.AppendBytes(message, make([]byte, size-4))
			said, _, _ := strings.Cut(s.invoke(fetch, message), ":")
			return fmt.Sprint(len(message), " bytes: ", said)
		},
		"fields": func() string {
			var names []string
			messages := katsubushipb.File_katsubushipb_katsubushi_proto.Messages()
			for i := range messages.Len() {
				fields := messages.Get(i).Fields()
				for k := range fields.Len() {
					d := fields.Get(k)
					names = append(names, fmt.Sprintf("%s=%d %v", d.FullName(), d.Number(), d.Kind()))
				}
			}
			return strings.Join(names, "\n")
		},
		"refuses":      func() { s.refusal.Store(&errSpent) },
		"is-unready":   func() { s.unready.Store(true) },
		"is-ready":     func() { s.unready.Store(false) },
		"lets-go":      func() { close(s.hold) },
		"removes-all":  func() { s.people.Replace(nil) },
		"another-port": func() { s.limits.Current.Add(1) }, // has a connection
		"closes":       func(name string) { s.conns[name].Close() },
		"counts": func() string {
			n := &s.counters
			return fmt.Sprintf("%d requests, %d ids, %d refused, %d logins, %d wrong", n.Requests.Load(), n.IDs.Load(),
				n.Refused.Load(), n.Logins.Load(), n.LoginErrors.Load())
		},
		"open": func() string {
			return fmt.Sprintf("%d here, %d in all, refused %t, counted %t", s.counters.Connections.Load(),
				s.limits.Current.Load(), s.limits.Refused.Load() > 0,
				s.limits.BytesRead.Load() > 0 && s.limits.BytesWritten.Load() > 0)
		},
		"check": func(service string) string {
			r, err := health().Check(soon(s.t), &healthpb.HealthCheckRequest{Service: service})
			return r.GetStatus().String() + " " + says(err)
		},
		"list": func() (string, error) {
			list, err := health().List(soon(s.t), nil)
			return fmt.Sprint(len(list.GetStatuses()), " services, ", list.GetStatuses()["katsubushi.Stats"].GetStatus()), err
		},
		"watch": func(name, service string) (err error) {
			s.watches[name], err = health().Watch(soon(s.t), &healthpb.HealthCheckRequest{Service: service})
			return err
		},
		"hears": func(name string) string {
			got, err := s.watches[name].Recv()
			return got.GetStatus().String() + " " + says(err)
		},
		"stops": func() { // once all has ended
			s.begun["stop"] = make(chan string, 1)
			go func() { s.begun["stop"] <- fmt.Sprint(s.Shutdown(soon(s.t))) }()
		},
		"stops-at-once": func() string {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return fmt.Sprint("canceled: ", errors.Is(s.Shutdown(ctx), context.Canceled))
		},
		"accepts": func() bool {
			c, err := net.Dial("tcp", s.address)
			if err == nil {
				c.Close()
			}
			return err == nil
		},
	}
}
