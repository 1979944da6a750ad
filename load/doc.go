// Package load measures a service: it sends operations over many connections, as fast as the
// service responds or at a fixed rate, and records their latencies.
//
// A [Plan] sets how many operations are sent and when, and a [Recorder] records their results. A
// [Workload] makes the operations on a service, with the blobs and sessions that they need, and
// removes them. A [Conn] is one connection that sends requests.
package load
