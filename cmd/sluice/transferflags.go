package main

import (
	"slices"
	"sync/atomic"

	"sluice/client/folder"
)

// transferFlags choose how files and blobs are transferred. Commands that transfer several embed
// them.
type transferFlags struct {
	Jobs    *int        `short:"j" env:"-" group:"Transfers:" placeholder:"NUMBER" help:"How many files or blobs are transferred at a time. Default: 32 small ones that are sent or copied, or 8 that are large or received."`
	Include includeRule `env:"-" group:"Transfers:" placeholder:"PATTERN" help:"With folders and prefixes: names to transfer although a later --exclude matches them. The flag may be repeated."`
	Exclude excludeRule `env:"-" group:"Transfers:" placeholder:"PATTERN" help:"With folders and prefixes: names to leave out, such as '*.tmp', 'cache/' or /top. The flag may be repeated."`

	Preserve bool `short:"p" env:"-" group:"Transfers:" help:"Keep the times of modification and the permissions of files in the metadata of blobs (mtime and mode, as rclone does), and restore them."`

	rateFlag `embed:"" group:"Transfers:"`
}

// maxJobs bounds --jobs: each may have several connections.
const maxJobs = 256

// set sets options of a batch. The flags for names are an error unless the command has folders or
// prefixes.
func (f *transferFlags) set(o *folder.Options, folders bool) error {
	o.Preserve = f.Preserve
	if f.Jobs != nil {
		if *f.Jobs < 1 || *f.Jobs > maxJobs {
			return usagef("--jobs %d: must be from 1 to %d", *f.Jobs, maxJobs)
		}
		o.Concurrency = *f.Jobs
	}
	rules := slices.Concat(f.Include.rules, f.Exclude.rules)
	if len(rules) == 0 {
		return nil
	}
	if !folders {
		return usagef("--include and --exclude require -r: they choose among the names in a folder or below a prefix")
	}
	slices.SortFunc(rules, func(a, b orderedRule) int { return int(a.order - b.order) })
	var ordered []folder.Rule
	for _, r := range rules {
		ordered = append(ordered, r.Rule)
	}
	filter, err := folder.NewFilter(ordered)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	o.Filter = filter
	return nil
}

// orderedRule is a rule with its place among all on the command line.
type orderedRule struct {
	folder.Rule
	order int64
}

// ruleOrder is the last rule's place. Two flags share their order, which kong does not keep.
var ruleOrder atomic.Int64

type (
	includeRule struct{ rules []orderedRule }
	excludeRule struct{ rules []orderedRule }
)

// UnmarshalText adds a rule.
func (r *includeRule) UnmarshalText(text []byte) error {
	r.rules = append(r.rules, orderedRule{folder.Rule{Pattern: string(text)}, ruleOrder.Add(1)})
	return nil
}

// UnmarshalText adds a rule.
func (r *excludeRule) UnmarshalText(text []byte) error {
	r.rules = append(r.rules, orderedRule{folder.Rule{Pattern: string(text), Exclude: true}, ruleOrder.Add(1)})
	return nil
}
