package config

import "fmt"

// ExampleModules are the modules that an example names.
type ExampleModules struct{ Storage, Kv, Queue, Source, Sink string }

// Example is a file to start from: it works as it is, says what each key is for, and has the built-in
// defaults. The modules are the caller's, since this package knows none.
func Example(m ExampleModules) string {
	return fmt.Sprintf(`# The configuration of Stowage. Unknown keys are refused; "stowage config check" reads the file
# without starting anything, and "stowage modules" lists the modules and their keys.

# Where all data is kept. A relative path starts at the directory of this file; relative paths of
# modules start here.
state_dir = %[1]q

[http]
# Where the daemon listens. There is no TLS: keep it on the loopback interface, or put a proxy that
# ends TLS in front.
listen = %[2]q

# What pipelines and their operators keep: checkpoints, dead letters, pauses, resources. Without this
# table it is the same storage.
[storage]
module = %[3]q

# Key-value stores, one table each: [kv.NAME].
[kv.default]
module = %[4]q

# Queues that have settings of their own, one table each: [queue.NAME]. One that is missing is made
# when the daemon starts. All other queues are made with "stowage queue create".
#
# [queue.orders]
# module = %[5]q
#
# [queue.orders.config]
# The keys of the module stand here.

# Pipelines, one table each. A pipeline reads the events of its source, its monitors pick some of them,
# and its sinks get what was picked; what a sink does not take becomes a dead letter, which is replayed
# with "stowage dlq replay". Pipelines can also be resources that are changed while the daemon runs.
#
# [[pipeline]]
# id = "earthquakes"
# The keys of the source's module stand beside module.
# source = { module = %[6]q, path = "earthquakes.ndjson", follow = true }
# When an event happened: milliseconds since the epoch, or an RFC 3339 text.
# event_time = "time"
# The members of an event that expressions use, so that a misspelt one is found at the start.
# fields = { mag = "number", net = "string", time = "number" }
#
# Monitors, one table each.
# [[pipeline.monitor]]
# id = "strong"
# Without the key when, every event is picked.
# when = "mag >= 4.5"
# The third match of a network within an hour is delivered, then none of that network for a day.
# gate = { threshold = 3, window = "1h", cooldown = "24h", key = "net" }
# sinks = ["alerts"]
#
# Sinks, one table each.
# [[pipeline.sink]]
# id = "alerts"
# module = %[7]q
# retry = { attempts = 5, min = "1s", max = "1m" }
# The keys of the module stand here, beside id, module and retry.
`, DefaultStateDir, DefaultListen, m.Storage, m.Kv, m.Queue, m.Source, m.Sink)
}
