package httpapi

import (
	"sync"
	"time"

	"sluice/wire"
)

// figuresAge is how long figures are used again, because counting costs more the more there is.
const figuresAge = 5 * time.Second

// figures are the last figures that were counted.
type figures struct {
	mu    sync.Mutex // held while they are counted
	taken time.Time
	last  wire.Figures // without the history
}
