// Package orm holds the test that runs the recipes of examples/orm, each with its framework, a real
// database and two real daemons. Only make test-examples runs it. Recipes know nothing of the test:
// the programs in drivers call their functions as the test says.
package orm
