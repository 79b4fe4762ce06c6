package katsubushitest_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/katsubushitest"
)

// go test runs functions of this kind. The daemon is there until the test ends.
func ExampleStart() {
	TestOrder := func(t *testing.T) {
		addr := katsubushitest.Start(t, katsubushitest.Names("orders sequence start=1000"))
		ids, err := client.New(client.Static(addr), client.Config{}) // or the program's own way to ask
		if err != nil {
			t.Fatal(err)
		}
		defer ids.Close()
		first, err := ids.Generator("orders").ID(t.Context())
		if first != 1000 || err != nil {
			t.Errorf("the first order is %d, %v", first, err)
		}
	}
	_ = TestOrder
}

// All tests of a package ask daemons of the same kind.
func ExampleOption() {
	options := []katsubushitest.Option{
		katsubushitest.Names("orders sequence", "sessions uuid7"),
		katsubushitest.OnlyNames(),
	}
	TestShop := func(t *testing.T) { _ = katsubushitest.Start(t, options...) }
	_ = TestShop
}

func ExampleNames() {
	TestSession := func(t *testing.T) {
		addr := katsubushitest.Start(t, katsubushitest.Names("sessions uuid7"))
		ids := dial(t, addr, client.Config{})
		if session, err := ids.Generator("sessions").Text(t.Context()); len(session) != 36 || err != nil {
			t.Errorf("%q, %v", session, err)
		}
	}
	_ = TestSession
}

// A key that is misspelt would get an id all the same.
func ExampleOnlyNames() {
	TestSpelling := func(t *testing.T) {
		addr := katsubushitest.Start(t, katsubushitest.Names("orders sequence"), katsubushitest.OnlyNames())
		_, err := dial(t, addr, client.Config{}).Generator("oders").ID(t.Context())
		if !errors.Is(err, client.ErrRefused) {
			t.Error(err)
		}
	}
	_ = TestSpelling
}

func ExampleUser() {
	TestLogin := func(t *testing.T) {
		addr := katsubushitest.Start(t, katsubushitest.User("shop", "secret"))
		ids := dial(t, addr, client.Config{User: "shop", Password: "secret"})
		if _, err := ids.ID(t.Context()); err != nil {
			t.Error(err)
		}
	}
	_ = TestLogin
}

func ExampleLayout() {
	TestOldIDs := func(t *testing.T) {
		addr := katsubushitest.Start(t, katsubushitest.Layout(generator.Twitter()))
		id, err := dial(t, addr, client.Config{}).ID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Log("it was made at", generator.Twitter().Decompose(id).Time)
	}
	_ = TestOldIDs
}

func ExampleLog() {
	TestQuietly := func(t *testing.T) {
		_ = katsubushitest.Start(t, katsubushitest.Log(slog.New(slog.DiscardHandler)))
	}
	_ = TestQuietly
}
