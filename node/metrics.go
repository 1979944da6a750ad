package node

import (
	"context"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/collect"
	"sluice/database"
	"sluice/exchange"
	"sluice/feed"
	"sluice/httpapi"
	"sluice/internal/auditlog"
	"sluice/internal/connlimit"
	"sluice/internal/metrics"
	"sluice/internal/task"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/storage"
)

// This file decides which metrics a node has. A new group of metrics is a function register...,
// which is called by registerMetrics and by DescribeMetrics. Its descriptions appear in
// docs/metrics.md.

// registerMetrics registers the node's metrics.
func (n *Node) registerMetrics() {
	set := n.metrics
	registerProcess(set, n.config.Version)
	registerReadiness(set, n)
	registerTasks(set, n.tasks)
	registerConnections(set, n.connections)
	registerAPI(set, n.api)
	registerLimits(set, n.limiter)
	registerStored(set, n.stores)
	registerBlobs(set, n.blobs)
	registerFeed(set, n.feed)
	registerWebhooks(set, n.webhooks)
	registerScrub(set, n.stores.Meta, n.config.ScrubPeriod, n.blobs)
	registerChanges(set, n.stores.Meta)
	registerCensus(set, n.census)
	registerSessions(set, n.sessions)
	registerChannels(set, n.channels)
	registerCollector(set, n.channels, n.collector, n.receiver.ahead)
	registerReturns(set, n.returns)
	registerAudit(set, n.audit)
	n.stores.RegisterMetrics(set)
	if n.cert != nil {
		registerCertificate(set, n.cert)
	}
}

// DescribeMetrics returns all metrics that a node can have, in the order of their names.
func DescribeMetrics() []metrics.Metric {
	set := metrics.NewSet()
	exchange.DescribeMetrics(set)
	registerProcess(set, "")
	registerReadiness(set, nil)
	registerTasks(set, nil)
	registerConnections(set, nil)
	registerAPI(set, nil)
	registerLimits(set, nil)
	registerStored(set, nil)
	registerBlobs(set, nil)
	registerFeed(set, nil)
	registerWebhooks(set, nil)
	registerScrub(set, nil, 0, nil)
	registerChanges(set, nil)
	registerCensus(set, nil)
	registerSessions(set, nil)
	registerChannels(set, nil)
	registerCollector(set, nil, nil, func() float64 { return 0 })
	registerReturns(set, nil)
	registerAudit(set, nil)
	storage.DescribeMetrics(set)
	registerCertificate(set, nil)
	return set.Metrics()
}

func registerFeed(set *metrics.Set, h *feed.Hub) {
	set.Gauge("sluice_changes_readers", "Requests and webhooks that read or wait for changes.", func() float64 { return float64(h.Stats().Readers) })
	set.Counter("sluice_changes_readers_refused_total", "Requests that were refused because too many waited for changes.", func() int64 { return h.Stats().Refused })
	sources := []string{"database", "memory"}
	set.Counters("sluice_changes_pages_total", "Pages of changes for clients, by where they were read.", "source", sources, func(source string) int64 {
		if source == "memory" {
			return h.Stats().Memory
		}
		return h.Stats().Database
	})
	set.Counter("sluice_changes_gone_total", "Requests for changes that are no longer known.", func() int64 { return h.Stats().Gone })
	set.Counter("sluice_changes_polls_total", "Reads of the database for all who wait for changes.", func() int64 { return h.Stats().Polls })
	set.Counter("sluice_changes_failed_polls_total", "Of these, reads that failed.", func() int64 { return h.Stats().FailedPolls })
}

func registerAudit(set *metrics.Set, l *auditlog.Log) {
	counts := map[string]func() int64{"written": l.Written, "lost": l.Lost}
	set.Counters("sluice_audit_lines_total", "Lines of the audit log that were written, and that could not be written.", "result", slices.Sorted(maps.Keys(counts)), func(result string) int64 {
		return counts[result]()
	})
}

func registerProcess(set *metrics.Set, version string) {
	set.Constant("sluice_build_info", "1; the labels are the versions of sluice and Go.",
		map[string]string{"version": version, "goversion": runtime.Version()})
}

func registerReadiness(set *metrics.Set, n *Node) {
	var names []string
	for _, name := range conditionNames {
		names = append(names, string(name))
	}
	metrics.Sample(set, n.unmetConditions,
		metrics.GaugeOf("sluice_ready", "1 if the node can serve requests, as /readyz; otherwise 0.",
			func(unmet []storage.ConditionName) float64 { return number(len(unmet) == 0) }),
		metrics.GaugesOf("sluice_not_ready", "1 for each reason why the node is not ready; the other reasons are 0.", "reason", names,
			func(unmet []storage.ConditionName, name string) float64 {
				return number(slices.Contains(unmet, storage.ConditionName(name)))
			}),
	)
	set.Gauge("sluice_leader", "1 on the node that has the lease of the background work; otherwise 0.",
		func() float64 { return number(n.tasks.leading()) })
	set.Gauge("sluice_clock_offset_seconds", "By how much the wall clock of this machine is ahead of the clock of the database.",
		func() float64 { return time.Since(n.stores.Meta.Now()).Seconds() })
	set.Gauge("sluice_deletions_paused", "1 while nothing is deleted because of its age, because the time is in doubt or is not known; otherwise 0.",
		func() float64 { return number(n.stores.Meta.DeletionErr() != nil) })
}

// number returns 1 for true and 0 for false.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// seconds returns a time as seconds since 1970, or NaN if it is zero.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return math.NaN()
	}
	return float64(t.UnixMilli()) / 1000
}

func registerTasks(set *metrics.Set, tasks *taskLog) {
	names := names(func(task.Name) bool { return true })
	set.Counters("sluice_task_runs_total", "Runs of background tasks that have ended.", "task", names,
		func(name string) int64 { return tasks.of(name).runs })
	set.Counters("sluice_task_failures_total", "Runs that failed, at least in part.", "task", names,
		func(name string) int64 { return tasks.of(name).failures })
	set.Counters("sluice_task_handled_total", "What the runs handled: contents that were freed, rows that were purged, orphans that were deleted, settlements that were collected, channels with an expired payment, extents that were counted, checked or healed, objects that were listed.", "task", names,
		func(name string) int64 { return tasks.of(name).handled })
	set.Gauges("sluice_task_interval_seconds", "Time between two runs.", "task", timed,
		func(name string) float64 { return tasks.every[task.Name(name)].Seconds() })
	set.Gauges("sluice_task_overdue_seconds", "For how long a success of a task has been due, by its interval. Absent on nodes that do not lead.", "task", periodic,
		func(name string) float64 {
			if overdue, leads := tasks.overdue(name, time.Now()); leads {
				return overdue.Seconds()
			}
			return math.NaN()
		})
	set.Gauges("sluice_task_paused", "1 while a task is paused, on the leader; otherwise 0.", "task", pausable,
		func(name string) float64 { return number(tasks.paused(name)) })
	last := func(name, help string, of func(taskHistory) float64) {
		set.Gauges(name, help+" Absent before the first run on this node.", "task", names, func(name string) float64 {
			h := tasks.of(name)
			if h.runs == 0 {
				return math.NaN()
			}
			return of(h)
		})
	}
	last("sluice_task_last_run_timestamp_seconds", "When the last run ended.",
		func(h taskHistory) float64 { return seconds(h.last.Began.Add(h.last.Took)) })
	last("sluice_task_last_success_timestamp_seconds", "When the last run without a failure ended.",
		func(h taskHistory) float64 { return seconds(h.succeeded) })
	last("sluice_task_last_run_failed", "1 if the last run failed, otherwise 0.",
		func(h taskHistory) float64 { return number(h.last.Err != nil) })
	last("sluice_task_last_run_seconds", "Duration of the last run.",
		func(h taskHistory) float64 { return h.last.Took.Seconds() })
	last("sluice_task_last_run_handled", "What the last run handled.",
		func(h taskHistory) float64 { return float64(h.last.Count) })
}

func registerConnections(set *metrics.Set, connections *connlimit.Limiter) {
	set.Gauge("sluice_connections_open", "Open connections.", func() float64 { return float64(connections.Counts().Open) })
	set.Gauge("sluice_connections_max", "Greatest number of open connections.", func() float64 { return float64(connections.Max()) })
	set.Counter("sluice_connections_refused_total", "Connections refused because of the total limit.", func() int64 { return connections.Counts().Refused })
	set.Counter("sluice_connections_crowded_total", "Connections refused because of the limit of their address.", func() int64 { return connections.Counts().Crowded })
	set.Counter("sluice_connections_evicted_total", "Idle connections closed in favor of new ones.", func() int64 { return connections.Counts().Evicted })
	set.Counter("sluice_connections_failed_total", "Attempts to accept a connection that failed.", func() int64 { return connections.Counts().Failed })
}

func registerAPI(set *metrics.Set, api *httpapi.Server) {
	set.Gauge("sluice_http_requests_max", "Greatest number of requests in progress; --max-requests.",
		func() float64 { return float64(api.MaxRequests()) })
	set.Gauge("sluice_http_response_memory_bytes", "Memory of pages and other larger responses that wait for their clients; at most 64 MiB, beyond which lists are refused.",
		func() float64 { return float64(api.ReplyMemory()) })
	set.Counter("sluice_http_requests_busy_total", "Requests refused because too many were in progress.",
		func() int64 { return api.RefusedBusy() })
}

func registerLimits(set *metrics.Set, limiter *access.Limiter) {
	kinds := map[string]int{}
	var names []string
	for i, k := range keys.LimitKinds {
		kinds[k.Column()], names = i, append(names, k.Column())
	}
	set.Counters("sluice_limits_hit_total", "Requests and writes that a limit of a group of keys or of an address has refused or, for rates of bytes, delayed.", "limit", names,
		func(name string) int64 { return limiter.Hits(kinds[name]) })
}

// stored counts the blobs and bytes of all accounts.
type stored struct{ blobs, bytes int64 }

func registerStored(set *metrics.Set, stores *storage.Stores) {
	metrics.Sample(set, func(ctx context.Context) (stored, error) {
		blobs, bytes, err := stores.Meta.TotalStored(database.WithPatience(ctx, queryPatience))
		return stored{blobs, bytes}, err
	},
		metrics.GaugeOf("sluice_blobs", "Blobs, expired ones included until they are purged.", func(s stored) float64 { return float64(s.blobs) }),
		metrics.GaugeOf("sluice_blob_bytes", "Bytes of the contents of all blobs.", func(s stored) float64 { return float64(s.bytes) }),
	)
}

// queryPatience is how long a query for metrics waits in the database.
const queryPatience = 2 * time.Second

func registerBlobs(set *metrics.Set, blobs *blob.Service) {
	metrics.Sample(set, func(ctx context.Context) (metastore.Backlog, error) {
		return blobs.GarbageBacklog(database.WithPatience(ctx, queryPatience))
	},
		metrics.GaugeOf("sluice_garbage_contents", "Deleted contents whose grace period has passed and whose bytes are not freed yet, at most 100,000.",
			func(b metastore.Backlog) float64 { return float64(b.Contents) }),
		metrics.GaugeOf("sluice_garbage_bytes", "Bytes of the contents that are due to be freed; of the 10,000 oldest, and of 1,000 extents of each, if there are more.",
			func(b metastore.Backlog) float64 { return float64(b.Bytes) }),
		metrics.GaugeOf("sluice_garbage_oldest_seconds", "Time since the grace period of the oldest such content passed.",
			func(b metastore.Backlog) float64 { return b.Oldest.Seconds() }),
	)
	set.Counter("sluice_garbage_freed_contents_total", "Deleted contents whose bytes this node has freed.", func() int64 { return blobs.Stats().FreedContents })
	set.Counter("sluice_objects_deleted_total", "Objects that this node has deleted from the byte store.", func() int64 { return blobs.Stats().FreedObjects })
	set.Counter("sluice_damaged_reads_total", "Reads that found stored bytes damaged or missing, or needed some that are recorded as such.", func() int64 { return blobs.Stats().Damaged })
}

// integrity has the totals of known damage, and how far the scrub is.
type integrity struct {
	damage metastore.DamageTotals
	scrub  metastore.Scrub
	now    time.Time
}

// age returns the time since a complete round has ended, or since the first one began, in seconds,
// or 0 before that.
func (i integrity) age() float64 {
	since := i.scrub.Finished
	if since.IsZero() {
		since = i.scrub.Began
	}
	if since.IsZero() {
		return 0
	}
	return max(0, i.now.Sub(since).Seconds())
}

// registerScrub registers the metrics of damage and scrubs.
func registerScrub(set *metrics.Set, meta metastore.Store, period time.Duration, blobs *blob.Service) {
	metrics.Sample(set, func(ctx context.Context) (i integrity, err error) {
		ctx = database.WithPatience(ctx, queryPatience)
		i.now = blobs.Now()
		if i.damage, err = meta.DamageTotals(ctx); err != nil {
			return i, err
		}
		i.scrub, err = meta.Scrub(ctx)
		return i, err
	},
		metrics.GaugeOf("sluice_damaged_contents", "Contents with extents that are recorded as damaged. Copies of a blob have one content.",
			func(i integrity) float64 { return float64(i.damage.Contents) }),
		metrics.GaugeOf("sluice_damaged_extents", "Extents that are recorded as damaged.",
			func(i integrity) float64 { return float64(i.damage.Extents) }),
		metrics.GaugeOf("sluice_damaged_bytes", "Bytes in these extents' damaged blocks.",
			func(i integrity) float64 { return float64(i.damage.Bytes) }),
		metrics.GaugeOf("sluice_scrub_age_seconds", "Time since the scrub ended a complete round, or, before the first has, since it began. 0 before that.",
			integrity.age),
		metrics.GaugeOf("sluice_scrub_round_extents", "Extents that the scrub has checked in its newest round.",
			func(i integrity) float64 { return float64(i.scrub.Extents) }),
		metrics.GaugeOf("sluice_scrub_round_bytes", "Bytes of these extents.",
			func(i integrity) float64 { return float64(i.scrub.Bytes) }),
		metrics.GaugeOf("sluice_scrub_running", "1 while a round has not ended; otherwise 0.",
			func(i integrity) float64 { return number(i.scrub.Running) }),
	)
	set.Gauge("sluice_scrub_period_seconds", "Period in which everything is scrubbed once; --scrub-period. 0: nothing is scrubbed.", func() float64 { return period.Seconds() })
	set.Counter("sluice_scrub_read_bytes_total", "Bytes that the scrub has read on this node.", func() int64 { return blobs.Stats().Scrubbed })
	set.Counter("sluice_damage_found_total", "Contents for which this node was the first to record damage.", func() int64 { return blobs.Stats().Found })
	set.Counter("sluice_extents_healed_total", "Damaged extents that this node has repaired from the second store.", func() int64 { return blobs.Stats().Healed })
}

// registerChanges registers the feed's metrics.
func registerChanges(set *metrics.Set, meta metastore.Store) {
	metrics.Sample(set, func(ctx context.Context) (metastore.ChangeTotals, error) {
		return meta.ChangeTotals(database.WithPatience(ctx, queryPatience))
	},
		metrics.GaugeOf("sluice_changes", "Changes of blobs that are recorded.", func(c metastore.ChangeTotals) float64 { return float64(c.Changes) }),
		metrics.GaugeOf("sluice_changes_bytes", "Bytes of these changes.", func(c metastore.ChangeTotals) float64 { return float64(c.Bytes) }),
		metrics.GaugeOf("sluice_changes_oldest_timestamp_seconds", "When the oldest change was recorded, in seconds since 1970. Absent while there is none.",
			func(c metastore.ChangeTotals) float64 { return seconds(c.Oldest) }),
		metrics.GaugeOf("sluice_changes_evicted", "Changes that were removed early, ever, because their owner had too many.", func(c metastore.ChangeTotals) float64 { return float64(c.Evicted) }),
	)
}

func registerCensus(set *metrics.Set, c *census) {
	gauge := func(name, help string, of func(*counted) float64) {
		set.Gauge(name, help+leaderOnly, func() float64 {
			if last := c.metrics(); last != nil {
				return of(last)
			}
			return math.NaN()
		})
	}
	gauges := func(name, help, label string, of map[string]func(*counted) float64) {
		set.Gauges(name, help+leaderOnly, label, slices.Sorted(maps.Keys(of)), func(value string) float64 {
			if last := c.metrics(); last != nil {
				return of[value](last)
			}
			return math.NaN()
		})
	}
	gauges("sluice_sessions", "Sessions that are retained.", "state", map[string]func(*counted) float64{
		"active":    func(c *counted) float64 { return float64(c.Sessions.Active) },
		"exhausted": func(c *counted) float64 { return float64(c.Sessions.Exhausted) },
		"expired":   func(c *counted) float64 { return float64(c.Sessions.Expired) },
	})
	gauges("sluice_channels", "Channels, which are retained forever.", "state", map[string]func(*counted) float64{
		"open":    func(c *counted) float64 { return float64(c.Channels.Open) },
		"closed":  func(c *counted) float64 { return float64(c.Channels.Closed) },
		"expired": func(c *counted) float64 { return float64(c.Channels.Expired) },
	})
	gauges("sluice_channel_units", "Sums over all channels, in units of the asset: deposited, accepted by micropayments, of that not spent (credit), and of that collected (settled).", "amount", map[string]func(*counted) float64{
		"deposited": func(c *counted) float64 { return float64(c.Channels.Deposited) },
		"accepted":  func(c *counted) float64 { return float64(c.Channels.Accepted) },
		"credit":    func(c *counted) float64 { return float64(c.Channels.Credit) },
		"settled":   func(c *counted) float64 { return float64(c.Channels.Settled) },
	})
	gauges("sluice_extents", "Extents in the metadata (inline) and in the byte store (object), of garbage too.", "kind", map[string]func(*counted) float64{
		"inline": func(c *counted) float64 { return float64(c.Inline.Extents) },
		"object": func(c *counted) float64 { return float64(c.Objects.Extents) },
	})
	gauges("sluice_extent_bytes", "Bytes of the extents in the metadata (inline) and in the byte store (object), of garbage too.", "kind", map[string]func(*counted) float64{
		"inline": func(c *counted) float64 { return float64(c.Inline.Bytes) },
		"object": func(c *counted) float64 { return float64(c.Objects.Bytes) },
	})
	gauge("sluice_uploads_open", "Open uploads.", func(c *counted) float64 { return float64(c.Uploads) })
	gauge("sluice_census_timestamp_seconds", "When sessions, channels, extents and uploads were last counted.", func(c *counted) float64 { return seconds(c.at) })
}

// leaderOnly ends the help of a census's metrics.
const leaderOnly = " Counted by the leader at intervals; absent on other nodes."

func registerSessions(set *metrics.Set, sessions *session.Service) {
	set.Counter("sluice_sessions_granted_total", "Sessions that were created without a payment.", func() int64 { return sessions.Stats().Granted })
	set.Counter("sluice_session_uses_total", "Uses of sessions and charges of reads that succeeded.", func() int64 { return sessions.Stats().Uses })
	set.Counter("sluice_session_chunksets_used_total", "Chunksets that uses and charges took. Returned chunksets are not subtracted.", func() int64 { return sessions.Stats().Chunksets })
}

func registerChannels(set *metrics.Set, channels *paychan.Service) {
	set.Counter("sluice_signatures_verified_total", "Signatures of micropayments that were verified, and keys that did not sign that were checked.", func() int64 { return channels.Stats().Verified })
	set.Counter("sluice_channels_opened_total", "Channels that were opened.", func() int64 { return channels.Stats().Opened })
	set.Counters("sluice_purchases_total", "Micropayments that were accepted, for a session or directly for a read.", "for", []string{"session", "read"}, func(what string) int64 {
		if what == "session" {
			return channels.Stats().Purchases
		}
		return channels.Stats().Reads
	})
	for _, kind := range []struct {
		name, help string
		of         func(ledger.Unsettled) ledger.UnsettledSum
	}{
		{"waiting", "whose payment is pending or submitted", func(u ledger.Unsettled) ledger.UnsettledSum { return u.Waiting }},
		{"expired", "with a payment that expired before it was collected", func(u ledger.Unsettled) ledger.UnsettledSum { return u.Expired }},
		{"failed", "with a payment that the chain refused to collect", func(u ledger.Unsettled) ledger.UnsettledSum { return u.Failed }},
	} {
		set.Gauge("sluice_settlements_"+kind.name, "Channels "+kind.help+"."+leaderOnly,
			reviewed(channels, func(u ledger.Unsettled) float64 { return float64(kind.of(u).Channels) }))
		set.Gauge("sluice_settlements_"+kind.name+"_units", "Accepted and unsettled amount of these channels, in units of the asset."+leaderOnly,
			reviewed(channels, func(u ledger.Unsettled) float64 { return float64(kind.of(u).Amount) }))
	}
	set.Gauge("sluice_settlements_overdue_seconds", "Time for which the payment that has waited longest for the chain has been due, or in flight; 0 if none is, and without a chain."+leaderOnly,
		reviewed(channels, func(u ledger.Unsettled) float64 { return u.Overdue.Seconds() }))
	set.Gauge("sluice_withdrawn_elsewhere", "Channels of which something was withdrawn on the chain that this service has not collected."+leaderOnly,
		reviewed(channels, func(u ledger.Unsettled) float64 { return float64(u.Elsewhere.Channels) }))
	set.Gauge("sluice_withdrawn_elsewhere_units", "Amount that was withdrawn from channels on the chain and that this service has not collected, in units of the asset."+leaderOnly,
		reviewed(channels, func(u ledger.Unsettled) float64 { return float64(u.Elsewhere.Amount) }))
}

// reviewed returns a figure of unsettled payments, or NaN on a node that does not count them.
func reviewed(channels *paychan.Service, of func(ledger.Unsettled) float64) func() float64 {
	return func() float64 {
		if u, ok := channels.Unsettled(); ok {
			return of(u)
		}
		return math.NaN()
	}
}

// registerCollector registers the metrics of submissions. collector is nil without a chain. ahead
// returns by how much the chain's time is ahead of our clock.
func registerCollector(set *metrics.Set, channels *paychan.Service, collector *collect.Collector, ahead func() float64) {
	stats := func() collect.Stats {
		if collector == nil {
			return collect.Stats{}
		}
		return collector.Stats()
	}
	set.Counter("sluice_settlements_total", "Settlements that were collected.", func() int64 { return channels.Stats().Settled + stats().Collected })
	set.Counters("sluice_submissions_total", "Submissions to the chain that this node has ended, and that a fullnode refused to take.", "outcome", []string{"collected", "failed", "expired", "refused"}, func(outcome string) int64 {
		s := stats()
		return map[string]int64{"collected": s.Collected, "failed": s.Failed, "expired": s.Expired, "refused": s.Refused}[outcome]
	})
	set.Gauge("sluice_settling_halted", "1 on the node that settles while nothing is sold or collected, because the chain contradicted the rules of the contract; otherwise 0.",
		func() float64 { return number(collector != nil && collector.Halted()) })
	set.Counter("sluice_collected_units_total", "Amount that this node has collected on the chain, in units of the asset.", func() int64 { return stats().AmountCollected })
	set.Counter("sluice_collection_gas_total", "Gas that this node's submissions have cost, in the chain's smallest coin.", func() int64 { return stats().GasSpent })
	set.Counter("sluice_settlements_postponed_total", "Times a settlement that was due has waited, because its gas would have cost more than it pays.", func() int64 { return stats().Postponed })
	set.Counters("sluice_simulations_total", "Simulations of micropayments on the chain. executed: it would have its effect; refused: it would not; failed: no fullnode has answered.", "outcome", []string{"executed", "refused", "failed"}, func(outcome string) int64 {
		s := channels.Stats()
		return map[string]int64{"executed": s.Simulated, "refused": s.SimulationRefused, "failed": s.SimulationFailed}[outcome]
	})
	set.Gauge("sluice_ledger_ahead_seconds", "Time by which the chain is ahead of the clock of the store; negative if it is behind; 0 without a chain, and if it is not known.", ahead)
	set.Gauge("sluice_clock_stops_sales", "1 while nothing is sold, because the chain is more than 10 seconds ahead of the clock of the store, or has no time that can be right; otherwise 0.",
		func() float64 { return number(channels.ClockAgrees() != nil) })
	set.Counter("sluice_channel_readings_failed_total", "Readings of channels from the chain that failed.", func() int64 { return channels.Stats().ReadsFailed })
}

func registerReturns(set *metrics.Set, returns *metering.Returns) {
	set.Gauge("sluice_returns_pending", "Reads with chunksets that are still to be returned.", func() float64 { return float64(returns.Pending()) })
	set.Counter("sluice_returns_lost_total", "Chunksets that were charged but not served and could not be returned in time.", func() int64 { return returns.Lost() })
}

func registerCertificate(set *metrics.Set, cert *certificate) {
	set.Gauge("sluice_tls_certificate_expiry_timestamp_seconds", "When the TLS certificate that is served expires.",
		func() float64 { return seconds(cert.current.Load().Leaf.NotAfter) })
}
