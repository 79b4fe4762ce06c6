package grpcapi

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

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

func TestOverdueCalls(t *testing.T) {
	if err := unavailable(fmt.Errorf("x: %w", context.DeadlineExceeded)); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}
