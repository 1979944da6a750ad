package engine

func (p *postgresEngine) stats() Stats {
	pool := p.pool.Stat()
	return Stats{
		Commits: p.commitCounts.seconds, InDoubt: p.commitCounts.inDoubt.Load(),
		Postgres: &PostgresStats{
			MaxConnections: int(pool.MaxConns()), Idle: int(pool.IdleConns()), Used: int(pool.AcquiredConns()),
			Waits: pool.EmptyAcquireCount(), WaitTime: pool.EmptyAcquireWaitTime(),
			MaxWriters: cap(p.writeSlots), Writers: len(p.writeSlots),
			ConflictRetries: p.conflictRetries.Load(), LostRetries: p.lostRetries.Load(),
			Timeline: int64(p.sessions.timeline()), EndedOlder: p.sessions.older.Load(), EndedSilent: p.sessions.silent.Load(),
			LateCommits: p.sessions.late.Load(),
		},
	}
}
