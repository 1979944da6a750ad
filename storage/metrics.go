package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"sluice/bytestore/cached"
	"sluice/bytestore/localfs"
	"sluice/bytestore/s3"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/internal/histogram"
	"sluice/internal/metrics"
	"sluice/internal/vfs"
)

// RegisterMetrics registers the stores' metrics.
func (s *Stores) RegisterMetrics(set *metrics.Set) {
	registerDisk(set, s.Disk)
	registerBackups(set, s.backups)
	registerSQL(set, s.sql.Stats)
	if s.sql.Stats().Postgres != nil {
		registerPostgres(set, s.sql.Stats)
	} else {
		registerSQLite(set, s.sql.Stats)
	}
	if s.files != nil {
		registerFiles(set, s.files.Stats)
	}
	if s.objects != nil {
		registerObjects(set, s.objects)
	}
	if s.cache != nil {
		registerCache(set, s.cache)
	}
}

// DescribeMetrics registers the metrics that any kind of store has with a Set that is never
// collected.
func DescribeMetrics(set *metrics.Set) {
	stats := func() sqlstore.Stats {
		return sqlstore.Stats{EngineStats: sqlstore.EngineStats{SQLite: &sqlstore.SQLiteStats{}}}
	}
	registerDisk(set, nil)
	registerBackups(set, nil)
	registerSQL(set, stats)
	registerSQLite(set, stats)
	registerPostgres(set, stats)
	registerFiles(set, nil)
	registerObjects(set, nil)
	registerCache(set, nil)
}

// always returns a query that cannot fail.
func always[T any](read func() T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return read(), nil }
}

type disk struct {
	vfs.Space
	reserve int64
}

func registerDisk(set *metrics.Set, space func() (vfs.Space, int64, error)) {
	metrics.Sample(set, func(context.Context) (disk, error) {
		now, reserve, err := space()
		return disk{now, reserve}, err
	},
		metrics.GaugeOf("sluice_disk_size_bytes", "Capacity of the file system with the data folder.",
			func(d disk) float64 { return float64(d.Size) }),
		metrics.GaugeOf("sluice_disk_free_bytes", "Bytes of the file system with the data folder that this process may still use, the reserve included.",
			func(d disk) float64 { return float64(d.Free) }),
		metrics.GaugeOf("sluice_disk_reserve_bytes", "Free bytes of the file system with the data folder that only deletes may use. 0 if the bytes are in an object store.",
			func(d disk) float64 { return float64(d.reserve) }),
		metrics.GaugeOf("sluice_disk_inodes", "Files and folders that the file system with the data folder can hold, or 0 if there is no limit.",
			func(d disk) float64 { return float64(d.Inodes) }),
		metrics.GaugeOf("sluice_disk_free_inodes", "Files and folders that can still be created there; without a limit 0.",
			func(d disk) float64 { return float64(d.FreeInodes) }),
	)
}

// backups are when a backup succeeded and failed last, in seconds since 1970, or 0.
type backups struct{ succeeded, failed float64 }

// backups reads when backups were made, by other processes.
func (s *Stores) backups(ctx context.Context) (found backups, err error) {
	for name, at := range map[string]*float64{BackupSucceeded: &found.succeeded, BackupFailed: &found.failed} {
		value, err := s.Meta.Property(ctx, name)
		if errors.Is(err, database.ErrNotFound) {
			continue
		}
		if err != nil {
			return found, err
		}
		if *at, err = strconv.ParseFloat(value, 64); err != nil {
			return found, fmt.Errorf("the property %s: %w", name, err)
		}
	}
	return found, nil
}

func registerBackups(set *metrics.Set, read func(context.Context) (backups, error)) {
	metrics.Sample(set, read,
		metrics.GaugeOf("sluice_backup_succeeded_timestamp_seconds", "When sluice backup made a backup of the instance last, in seconds since 1970, or 0.",
			func(b backups) float64 { return b.succeeded }),
		metrics.GaugeOf("sluice_backup_failed_timestamp_seconds", "When sluice backup failed last, in seconds since 1970, or 0.",
			func(b backups) float64 { return b.failed }),
	)
}

func registerSQL(set *metrics.Set, stats func() sqlstore.Stats) {
	type all = sqlstore.Stats
	set.Histogram("sluice_database_commit_seconds", "Time of the COMMITs of the database.", stats().Commits)
	metrics.Sample(set, always(stats),
		metrics.CounterOf("sluice_database_commits_in_doubt_total", "COMMITs that were not acknowledged in time, or whose response was lost. Most are resolved by a query; the rest are responses outcome_unknown.",
			func(s all) float64 { return float64(s.InDoubt) }),
		metrics.CounterOf("sluice_blob_cache_hits_total", "Blobs found in the cache of small blobs, --memory-cache.",
			func(s all) float64 { return float64(s.BlobCache.Hits) }),
		metrics.CounterOf("sluice_blob_cache_misses_total", "Blobs that were not in the cache of small blobs.",
			func(s all) float64 { return float64(s.BlobCache.Misses) }),
		metrics.CounterOf("sluice_blob_cache_evictions_total", "Blobs evicted from the cache of small blobs.",
			func(s all) float64 { return float64(s.BlobCache.Evictions) }),
		metrics.GaugeOf("sluice_blob_cache_bytes", "Approximate memory of the cache of small blobs.",
			func(s all) float64 { return float64(s.BlobCache.Bytes) }),
	)
}

func registerSQLite(set *metrics.Set, stats func() sqlstore.Stats) {
	set.Histogram("sluice_sqlite_batch_calls", "Write calls that shared a COMMIT.", stats().SQLite.Batches)
	metrics.Sample(set, always(func() *sqlstore.SQLiteStats { return stats().SQLite }),
		metrics.GaugeOf("sluice_sqlite_queued_calls", "Write calls that wait for a transaction.",
			func(s *sqlstore.SQLiteStats) float64 { return float64(s.Queue) }),
		metrics.CounterOf("sluice_sqlite_read_waits_total", "Reads that waited for a connection.",
			func(s *sqlstore.SQLiteStats) float64 { return float64(s.ReadWaits) }),
		metrics.CounterOf("sluice_sqlite_read_wait_seconds_total", "Time that reads waited for a connection.",
			func(s *sqlstore.SQLiteStats) float64 { return s.ReadWaitTime.Seconds() }),
		metrics.GaugesOf("sluice_sqlite_file_bytes", "Size of the files of the database.", "file", []string{"database", "log"},
			func(s *sqlstore.SQLiteStats, file string) float64 {
				if file == "log" {
					return float64(s.LogBytes)
				}
				return float64(s.DatabaseBytes)
			}),
	)
}

func registerPostgres(set *metrics.Set, stats func() sqlstore.Stats) {
	type postgres = *sqlstore.PostgresStats
	metrics.Sample(set, always(func() postgres { return stats().Postgres }),
		metrics.GaugesOf("sluice_postgres_connections", "Open connections to PostgreSQL.", "state", []string{"idle", "used"},
			func(s postgres, state string) float64 {
				if state == "idle" {
					return float64(s.Idle)
				}
				return float64(s.Used)
			}),
		metrics.GaugeOf("sluice_postgres_connections_max", "Greatest number of connections; pool_max_conns of the DSN.",
			func(s postgres) float64 { return float64(s.MaxConnections) }),
		metrics.CounterOf("sluice_postgres_connection_waits_total", "Transactions and queries that waited for a connection.",
			func(s postgres) float64 { return float64(s.Waits) }),
		metrics.CounterOf("sluice_postgres_connection_wait_seconds_total", "Time that transactions and queries waited for a connection.",
			func(s postgres) float64 { return s.WaitTime.Seconds() }),
		metrics.GaugeOf("sluice_postgres_writers", "Write transactions that run, or whose COMMIT is not acknowledged.",
			func(s postgres) float64 { return float64(s.Writers) }),
		metrics.GaugeOf("sluice_postgres_writers_max", "Greatest number of write transactions.",
			func(s postgres) float64 { return float64(s.MaxWriters) }),
		metrics.CountersOf("sluice_postgres_retries_total", "Attempts that were repeated, after a conflict or timeout, or after a lost connection.",
			"reason", []string{"conflict", "connection"},
			func(s postgres, reason string) float64 {
				if reason == "conflict" {
					return float64(s.ConflictRetries)
				}
				return float64(s.LostRetries)
			}),
		metrics.GaugeOf("sluice_postgres_timeline", "Timeline of the newest primary that this node has seen. Each promotion of a standby makes a greater one.",
			func(s postgres) float64 { return float64(s.Timeline) }),
		metrics.CountersOf("sluice_postgres_connections_ended_total", "Connections to PostgreSQL that the node has closed, because another server had become the primary or because theirs hung while COMMITs waited for it.",
			"reason", []string{"older", "silent"},
			func(s postgres, reason string) float64 {
				if reason == "older" {
					return float64(s.EndedOlder)
				}
				return float64(s.EndedSilent)
			}),
		metrics.CounterOf("sluice_postgres_late_commits_total", "COMMITs that an older primary confirmed after the node had seen a newer one. None was acknowledged.",
			func(s postgres) float64 { return float64(s.LateCommits) }),
	)
}

func registerFiles(set *metrics.Set, stats func() localfs.Stats) {
	metrics.Sample(set, func(context.Context) (localfs.Stats, error) { return stats(), nil },
		metrics.CounterOf("sluice_open_files_hits_total", "Reads of objects of at most 1 MiB in the data folder that found the file open.",
			func(s localfs.Stats) float64 { return float64(s.Hits) }),
		metrics.CounterOf("sluice_open_files_misses_total", "Reads of objects in the data folder that opened the file.",
			func(s localfs.Stats) float64 { return float64(s.Misses) }),
		metrics.GaugeOf("sluice_open_files", "Files of objects of at most 1 MiB in the data folder that are open, for readers or for later ones.",
			func(s localfs.Stats) float64 { return float64(s.Open) }),
	)
}

func registerObjects(set *metrics.Set, objects *s3.Store) {
	var operations []string
	for _, op := range s3.Operations {
		operations = append(operations, string(op))
	}
	set.Histograms("sluice_object_store_request_seconds", "Time of requests to the object store, until the headers of the response.",
		"operation", operations, func(op string) *histogram.Histogram { return objects.Requests(s3.Operation(op)).Seconds })
	set.Counters("sluice_object_store_errors_total", "Requests to the object store without a response, or with an error. Each attempt counts.",
		"operation", operations, func(op string) int64 { return objects.Requests(s3.Operation(op)).Errors })
	set.Gauge("sluice_staging_bytes", "Bytes reserved for bodies on their way to the object store.", func() float64 {
		bytes, _ := objects.Staged()
		return float64(bytes)
	})
	set.Gauge("sluice_staging_limit_bytes", "Greatest number of bytes reserved for bodies on their way to the object store; --staging-size.", func() float64 {
		_, limit := objects.Staged()
		return float64(limit)
	})
}

func registerCache(set *metrics.Set, cache *cached.Store) {
	counter := func(name, help string, of func(cached.Stats) int64) metrics.Figure[cached.Stats] {
		return metrics.CounterOf(name, help, func(s cached.Stats) float64 { return float64(of(s)) })
	}
	gauge := func(name, help string, of func(cached.Stats) int64) metrics.Figure[cached.Stats] {
		return metrics.GaugeOf(name, help, func(s cached.Stats) float64 { return float64(of(s)) })
	}
	metrics.Sample(set, always(func() cached.Stats { return cache.Stats() }),
		counter("sluice_cache_hits_total", "Blocks found in the cache when a reader needed them.", func(s cached.Stats) int64 { return s.Hits }),
		counter("sluice_cache_misses_total", "Blocks that were not in the cache when they were needed, or prefetched.", func(s cached.Stats) int64 { return s.Misses }),
		counter("sluice_cache_fetches_total", "Requests for blocks to the object store.", func(s cached.Stats) int64 { return s.Fetches }),
		counter("sluice_cache_bypasses_total", "Reads that continued in the object store, because blocks could not be cached or read.", func(s cached.Stats) int64 { return s.Bypasses }),
		counter("sluice_cache_evictions_total", "Blocks evicted from the cache.", func(s cached.Stats) int64 { return s.Evictions }),
		counter("sluice_cache_damaged_total", "Blocks found damaged in the cache and fetched again.", func(s cached.Stats) int64 { return s.Damaged }),
		counter("sluice_cache_errors_total", "Failed file operations of the cache.", func(s cached.Stats) int64 { return s.Errors }),
		gauge("sluice_cache_bytes", "Bytes that the cache uses on its disk.", func(s cached.Stats) int64 { return s.Bytes }),
		gauge("sluice_cache_blocks", "Blocks in the cache.", func(s cached.Stats) int64 { return s.Blocks }),
	)
}
