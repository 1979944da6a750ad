package instances

import (
	"cmp"
	"fmt"

	"sluice/cmd/sluice/internal/terminal"
	"sluice/instance"
	"sluice/wire"
)

// linesOfReturned returns lines with the rights of an instance that has gone back, and the commands
// that list all; and with the tasks that wait, and the commands that end that.
func linesOfReturned(l instance.Location, r instance.Returned) (lines []string) {
	at := " --data " + cmp.Or(l.Data, "DIR")
	if l.Meta != "" {
		at = " --meta DSN"
	}
	add := func(count int64, things, command string, named []string) {
		if count == 0 {
			return
		}
		lines = append(lines, fmt.Sprintf("%s, perhaps also such as had ended since then: %d. sluice %s%s lists all.", things, count, command, at))
		for _, name := range named {
			lines = append(lines, "  "+name)
		}
		if more := count - int64(len(named)); more > 0 {
			lines = append(lines, fmt.Sprintf("  and %d others", more))
		}
	}
	var keys []string
	for _, k := range r.Keys {
		keys = append(keys, terminal.Name(k.ID)+" "+terminal.Text(k.Label))
	}
	add(r.KeyCount, "Valid keys", "key list", keys)
	add(r.BlockedCount, "Blocked places", "place list", placesOf(r.Blocked))
	add(r.PublicCount, "Places that are open to everybody", "place list", placesOf(r.Public))
	for _, name := range r.Waiting {
		lines = append(lines, fmt.Sprintf("The task %s does nothing before sluice task resume %s%s; sluice task list%s shows why.", name, name, at, at))
	}
	return lines
}

func placesOf(list []wire.Place) (names []string) {
	for _, p := range list {
		names = append(names, terminal.Name(p.Account+"/"+p.Prefix+p.Blob))
	}
	return names
}
