package grpcapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
)

// raw is a codec for messages that are bytes already.
type raw struct{}

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
func (raw) Name() string { return "proto" }

var _ encoding.CodecV2 = raw{}

// What is on the wire, byte for byte, as kayac/go-katsubushi v2.0.4 has it.
func TestWire(t *testing.T) {
	f := newFixture(t, nil)
	c := dial(t, f.serve(), nil)
	for _, x := range []struct{ method, send, want string }{
		{fetch, "", "\x08\xe9\x07"},                                     // id (1) varint: 1001
		{fetchMulti, "\x08\x02", "\x0a\x04\xea\x07\xeb\x07"},            // n (1) varint; ids (1) packed
		{fetchMulti, "", "\x0a\x02\xec\x07"},                            // 0 means 1
		{fetchMulti, "\x08\x01", "\x0a\x02\xed\x07"},                    //
		{fetchMulti, "\x08\x63\x08\x01", "\x0a\x02\xee\x07"},            // the last one counts
		{fetch, "\x08\x05\x12\x02hi\xf8\x3f\x01", "\x08\xef\x07"},       // unknown fields
		{fetchMulti, "\x12\x03abc\x08\x01\x1d1234", "\x0a\x02\xf0\x07"}, //
		{"/katsubushi.Stats/Get", "", "\x08\x01\x10\x02\x18\x03\x22\x054.5.6\x28\x07\x30\x08\x38\x09\x40\x0a\x48\x0b"},
		{"/grpc.health.v1.Health/Check", "", "\x08\x01"},
	} {
		send, got := []byte(x.send), []byte(nil)
		if err := c.Invoke(soon(t), x.method, &send, &got, grpc.ForceCodecV2(raw{})); err != nil || string(got) != x.want {
			t.Errorf("%s of %q: %q, %v; want %q", x.method, x.send, got, err, x.want)
		}
	}
	var names []string
	messages := katsubushipb.File_katsubushipb_katsubushi_proto.Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for k := range fields.Len() {
			d := fields.Get(k)
			names = append(names, fmt.Sprintf("%s=%d %v", d.FullName(), d.Number(), d.Kind()))
		}
	}
	const want = `katsubushi.FetchMultiRequest.n=1 uint32
katsubushi.FetchResponse.id=1 uint64
katsubushi.FetchMultiResponse.ids=1 uint64
katsubushi.StatsResponse.pid=1 int32
katsubushi.StatsResponse.uptime=2 int64
katsubushi.StatsResponse.time=3 int64
katsubushi.StatsResponse.version=4 string
katsubushi.StatsResponse.curr_connections=5 int64
katsubushi.StatsResponse.total_connections=6 int64
katsubushi.StatsResponse.cmd_get=7 int64
katsubushi.StatsResponse.get_hits=8 int64
katsubushi.StatsResponse.get_misses=9 int64`
	if got := strings.Join(names, "\n"); got != want {
		t.Errorf("fields:\n%s", got)
	}
}

func TestIDs(t *testing.T) {
	f := newFixture(t, nil)
	c := f.client()
	for _, n := range []uint32{1, 399, 400, 401, 1000} {
		first := f.next.Load()
		got, err := c.FetchMulti(soon(t), &katsubushipb.FetchMultiRequest{N: n})
		if err != nil || len(got.GetIds()) != int(n) {
			t.Fatalf("%d: %d ids, %v", n, len(got.GetIds()), err)
		}
		for i, v := range got.Ids {
			if v != first+uint64(i) {
				t.Fatalf("id %d of %d: %d, want %d", i, n, v, first+uint64(i))
			}
		}
	}
	before := f.next.Load()
	for _, n := range []uint32{1001, 1 << 31, 1<<32 - 1} {
		want := fmt.Sprintf("InvalidArgument: n=%d: at most 1000 allowed", n)
		if _, err := c.FetchMulti(soon(t), &katsubushipb.FetchMultiRequest{N: n}); says(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f.refusal.Store(&errSpent)
	_, one := c.Fetch(soon(t), nil)
	_, many := c.FetchMulti(soon(t), &katsubushipb.FetchMultiRequest{N: 30})
	if says(one) != "Unavailable: lease expired 12s ago" || says(many) != says(one) {
		t.Errorf("refused: %v; %v", one, many)
	}
	if f.next.Load() != before {
		t.Error("ids were issued to those who got none")
	}
	if n := &f.counters; n.Requests.Load() != 7 || n.IDs.Load() != 2201 || n.Refused.Load() != 31 {
		t.Errorf("%d requests, %d ids, %d refused", n.Requests.Load(), n.IDs.Load(), n.Refused.Load())
	}
}

// A client that gives up is told so by its own library; the server's handler ends too.
func TestCancelledCalls(t *testing.T) {
	f := newFixture(t, nil)
	f.hold = make(chan struct{})
	c := f.client()
	ctx, cancel := context.WithCancel(soon(t))
	failed := make(chan error)
	go func() {
		_, err := c.Fetch(ctx, nil)
		failed <- err
	}()
	await(t, "a call", func() bool { return f.counters.Requests.Load() > 0 })
	cancel()
	if err := <-failed; status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	await(t, "the end of the handler", func() bool { return f.counters.Refused.Load() > 0 })
	if err := unavailable(fmt.Errorf("x: %w", context.DeadlineExceeded)); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}

// header is metadata for a call, as lines "name value".
func header(lines ...string) context.Context {
	md := metadata.MD{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, " ")
		md.Append(name, value)
	}
	return metadata.NewOutgoingContext(context.Background(), md)
}

func basic(userAndPassword string) string {
	return "authorization Basic " + base64.StdEncoding.EncodeToString([]byte(userAndPassword))
}

// Ids need a login and the right to them; nothing else does.
func TestLogins(t *testing.T) {
	accounts := map[string]*users.Account{}
	var directory users.Directory
	var list []users.User
	tokens := map[string]string{}
	for name, text := range map[string]string{"ann": "i*=get", "bob": "orders=get;*=incr,admin"} {
		rights, err := users.ParseRights(text)
		if err != nil {
			t.Fatal(err)
		}
		u, token, err := users.User{Name: name, Rights: rights}.WithToken()
		if err != nil {
			t.Fatal(err)
		}
		list, tokens[name] = append(list, u), token
	}
	directory.Replace(list)
	for name, token := range tokens {
		accounts[name] = directory.Bearer([]byte(token))
	}
	f := newFixture(t, func(c *Config) {
		c.Login = func(_ context.Context, from netip.Addr, c users.Credentials) (*users.Account, error) {
			switch {
			case from.String() != "127.0.0.1":
				t.Errorf("from %v", from)
			case string(c.User) == "busy":
				return nil, users.ErrBusy
			case c.Token == nil && string(c.Password) == "se:cret":
				return accounts[string(c.User)], nil
			}
			return directory.Bearer(c.Token), nil
		}
	})
	conn := dial(t, f.serve(), nil)
	c := katsubushipb.NewGeneratorClient(conn)
	const (
		nobody = "Unauthenticated: a user and a password, or a token, are needed"
		wrong  = "Unauthenticated: the user, the password or the token is wrong"
	)
	for _, x := range []struct {
		ctx  context.Context
		want string
	}{
		{context.Background(), nobody},
		{header("authorization "), nobody},
		{header("authorization Digest x"), nobody},
		{header("authorization Basic !"), nobody},
		{header(basic("ann:se:cret"), basic("ann:se:cret")), nobody},
		{header(basic("ann:secret")), wrong},
		{header(basic("eve:se:cret")), wrong},
		{header("authorization Bearer x"), wrong},
		{header("authorization Bearer "), wrong},
		{header(basic("busy:x")), "Unavailable: " + users.ErrBusy.Error()},
		{header(basic("ann:se:cret")), "OK: "},
		{header("authorization bearer " + tokens["ann"]), "OK: "},
		{header(basic("bob:se:cret")), "PermissionDenied: not permitted: id"},
	} {
		_, one := c.Fetch(x.ctx, nil)
		_, many := c.FetchMulti(x.ctx, &katsubushipb.FetchMultiRequest{N: 5})
		_, tooMany := c.FetchMulti(x.ctx, &katsubushipb.FetchMultiRequest{N: 5000})
		if says(one) != x.want || says(many) != x.want || x.want != "OK: " && says(tooMany) != x.want {
			t.Errorf("%v; %v; %v, want %s", one, many, tooMany, x.want)
		}
	}
	if n := &f.counters; n.IDs.Load() != 12 || n.Logins.Load() != 24 || n.LoginErrors.Load() != 12 ||
		f.next.Load() != 1013 {
		t.Errorf("%d ids, %d logins, %d wrong ones", n.IDs.Load(), n.Logins.Load(), n.LoginErrors.Load())
	}
	directory.Replace(nil)
	if _, err := c.Fetch(header(basic("ann:se:cret")), nil); says(err) != "PermissionDenied: not permitted: id" {
		t.Errorf("who was removed: %v", err)
	}
	if _, err := katsubushipb.NewStatsClient(conn).Get(soon(t), nil); err != nil {
		t.Error("statistics:", err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(soon(t), nil); err != nil {
		t.Error("health:", err)
	}
}

func TestHealth(t *testing.T) {
	f := newFixture(t, nil)
	c := healthpb.NewHealthClient(dial(t, f.serve(), nil))
	check := func(service, want string) {
		t.Helper()
		r, err := c.Check(soon(t), &healthpb.HealthCheckRequest{Service: service})
		if got := r.GetStatus().String() + " " + says(err); got != want {
			t.Errorf("%q: %s, want %s", service, got, want)
		}
	}
	watch := func(service string) func(want healthpb.HealthCheckResponse_ServingStatus) {
		stream, err := c.Watch(soon(t), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return func(want healthpb.HealthCheckResponse_ServingStatus) {
			t.Helper()
			if got, err := stream.Recv(); err != nil || got.GetStatus() != want {
				t.Errorf("%v %v, want %v", got, err, want)
			}
		}
	}
	const serving, not = healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING
	all, unknown := watch("katsubushi.Generator"), watch("nonsense")
	all(serving)
	unknown(healthpb.HealthCheckResponse_SERVICE_UNKNOWN)
	for _, service := range []string{"", "katsubushi.Generator", "katsubushi.Stats"} {
		check(service, "SERVING OK: ")
	}
	check("nonsense", "UNKNOWN NotFound: unknown service")
	f.unready.Store(true)
	check("", "NOT_SERVING OK: ")
	all(not)
	f.unready.Store(false)
	all(serving)
	list, err := c.List(soon(t), nil)
	if err != nil || len(list.GetStatuses()) != 3 || list.Statuses["katsubushi.Stats"].GetStatus() != serving {
		t.Error(list, err)
	}
}

// Both versions of reflection name the services, and have the file; a limited number of clients may ask
// at once.
func TestReflection(t *testing.T) {
	f := newFixture(t, nil)
	conn := dial(t, f.serve(), nil)
	var names []string
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	stream.Send(
		&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	r, err := stream.Recv()
	for _, s := range r.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	if got, want := fmt.Sprint(names),
		"[grpc.health.v1.Health grpc.reflection.v1.ServerReflection grpc.reflection.v1alpha.ServerReflection "+
			"katsubushi.Generator katsubushi.Stats]"; got != want {
		t.Errorf("%s, %v", got, err)
	}
	stream.Send(
		&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
				FileContainingSymbol: "katsubushi.Generator"}})
	r, err = stream.Recv()
	if files := r.GetFileDescriptorResponse().GetFileDescriptorProto(); len(files) != 1 ||
		!bytes.Contains(files[0], []byte("FetchMulti")) {
		t.Errorf("%d files, %v", len(files), err)
	}

	alpha, err := conn.NewStream(soon(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
	if err != nil {
		t.Fatal(err)
	}
	// the messages are the same
	alpha.SendMsg(
		&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	r = new(reflectionpb.ServerReflectionResponse)
	if err := alpha.RecvMsg(r); len(r.GetListServicesResponse().GetService()) != 5 {
		t.Error("v1alpha:", r, err)
	}
	ask := func() error {
		s, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(soon(t))
		if err == nil {
			s.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
			_, err = s.Recv()
		}
		return err
	}
	for i := 2; i < maxReflecting; i++ {
		if err := ask(); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := ask(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more than %d: %v", maxReflecting, err)
	}
	alpha.CloseSend()
	if err := alpha.RecvMsg(r); err == nil {
		t.Error("its end is not noticed")
	}
	await(t, "the place of the one that ended", func() bool { return ask() == nil })
}

// A drain waits for the calls under way, ends what watches, and cuts off what is left when its time is up.
func TestShutdown(t *testing.T) {
	f := newFixture(t, nil)
	f.hold = make(chan struct{})
	address := f.serve()
	conn := dial(t, address, nil)
	c := katsubushipb.NewGeneratorClient(conn)
	answers := make(chan error)
	go func() {
		_, err := c.Fetch(soon(t), nil)
		answers <- err
	}()
	watch, err := healthpb.NewHealthClient(conn).Watch(soon(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	await(t, "a call", func() bool { return f.counters.Requests.Load() > 0 })
	done := make(chan error)
	go func() { done <- f.Shutdown(soon(t)) }()
	if _, err := watch.Recv(); says(err) != "Unavailable: the daemon is stopping" {
		t.Error("a watch:", err)
	}
	await(t, "the end of accepting", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(f.hold)
	if err := <-answers; err != nil {
		t.Error("the call under way:", err)
	}
	if err := <-done; err != nil {
		t.Error("the drain:", err)
	}

	f = newFixture(t, nil)
	f.hold = make(chan struct{})
	c = f.client()
	go func() {
		_, err := c.Fetch(soon(t), nil)
		answers <- err
	}()
	await(t, "a call", func() bool { return f.counters.Requests.Load() > 0 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Error("a drain without time:", err)
	}
	if err := <-answers; status.Code(err) != codes.Unavailable {
		t.Error("a call that was cut off:", err)
	}
	if n := f.limits.Current.Load(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
}

// FuzzRequests: whatever bytes a message has, it gets an answer or a status, and no more ids than one
// may have; the server goes on.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{"", "\x08\x05", "\x08\xe8\x07", "\x08\xe9\x07",
		"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x0a\x03abc", "\x08", "\xff", "\x09\x01", "\x0b\x0c",
		"\x12\xff\xff\xff\x0fx"} {
		for kind := range byte(6) {
			f.Add([]byte(seed), kind)
		}
	}
	x := newFixture(f, nil)
	c := dial(f, x.serve(), nil)
	f.Fuzz(func(t *testing.T, message []byte, kind byte) {
		methods := []string{fetch, fetchMulti, "/katsubushi.Stats/Get", "/grpc.health.v1.Health/Check",
			"/grpc.health.v1.Health/List", "/katsubushi.Generator/Nothing"}
		method := methods[int(kind)%len(methods)]
		before, got := x.next.Load(), []byte(nil)
		err := c.Invoke(soon(t), method, &message, &got, grpc.ForceCodecV2(raw{}))
		switch code := status.Code(err); {
		case code == codes.OK || code == codes.Internal || code == codes.InvalidArgument || code == codes.NotFound ||
			code == codes.Unimplemented:
		case code == codes.ResourceExhausted && len(message) > maxMessage:
		default:
			t.Fatalf("%s of %q: %v", method, message, err)
		}
		issued := x.next.Load() - before
		var want katsubushipb.FetchMultiRequest
		wellFormed := proto.Unmarshal(message, &want) == nil
		asked := uint64(max(want.N, 1))
		switch {
		case method != fetch && method != fetchMulti || !wellFormed || method == fetchMulti && asked > maxIDs:
			if issued != 0 {
				t.Fatalf("%s of %q: %d ids issued", method, message, issued)
			}
		case method == fetch && wellFormed: // every message without mistakes is a FetchRequest
		case issued != asked || err != nil:
			t.Fatalf("%s of %q: %d ids issued, %v; want %d", method, message, issued, err, asked)
		}
	})
}
