package wire_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"sluice/test/testenv"
	"sluice/wire"
)

// TestEveryCodeHasARow compares the constants with the table.
func TestEveryCodeHasARow(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	testenv.OK(t, err)
	rows := map[wire.Code]int{}
	for _, row := range wire.Codes {
		rows[row.Code]++
	}
	constants := 0
	ast.Inspect(file, func(n ast.Node) bool {
		v, isValue := n.(*ast.ValueSpec)
		if !isValue || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "Code") {
			return true
		}
		literal, isText := v.Values[0].(*ast.BasicLit)
		if !isText {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		testenv.OK(t, err)
		constants++
		if rows[wire.Code(text)] != 1 {
			t.Errorf("%s has %d rows", text, rows[wire.Code(text)])
		}
		return true
	})
	if constants != len(wire.Codes) {
		t.Errorf("there are %d constants and %d rows", constants, len(wire.Codes))
	}
}

// TestCodesOfEndedThings checks that each code with the status 404 or 410 states which things it
// means, except those about no thing, about changes and about an administrator's.
func TestCodesOfEndedThings(t *testing.T) {
	// docs/protocol.md: "a session, upload or channel that does not exist", after a setback.
	testenv.Equal(t, wire.CodeLostInRollback.Row().Ended, wire.EndedUpload|wire.EndedSession|wire.EndedChannel, "kinds of things that a setback loses")
	for _, row := range wire.Codes {
		if row.Status == 404 || row.Status == 410 {
			testenv.Equal(t, row.Ended != 0, row.Code != wire.CodeRouteNotFound && row.Code != wire.CodeNotFound && row.Code != wire.CodeChangesGone, "whether %s is about a thing", row.Code)
		}
		if row.Payment {
			testenv.Equal(t, row.Ended&(wire.EndedSession|wire.EndedChannel) != 0, true, "whether %s is about a means of payment", row.Code)
		}
	}
}
