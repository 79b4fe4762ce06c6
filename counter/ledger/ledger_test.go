package ledger_test

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
)

// opener opens Stores of one Database.
func opener(db *memcounter.Database) countertest.Open {
	return func(*testing.T) (counter.Store, counter.Admin) {
		s := db.Open()
		return s, s
	}
}

func TestConformance(t *testing.T) {
	countertest.Run(t, func(*testing.T) countertest.Open {
		db := memcounter.NewDatabase()
		db.LateErr = counter.ErrNoRoll
		return opener(db)
	})
}

func TestADamagedRecord(t *testing.T) {
	db := memcounter.NewDatabase()
	countertest.RunDamaged(t, opener(db), db.Damage)
}
