package exchange

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestPanicDuringTheDrainIsAnError checks that a shutdown hides no defect.
func TestPanicDuringTheDrainIsAnError(t *testing.T) {
	x := &Exchange{Request: httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), status: http.StatusInternalServerError, err: errors.New("panic")}
	if got := x.level(false); got != slog.LevelError {
		t.Errorf("the level is %v", got)
	}
}
