package config

import "fmt"

// ExampleModules are the modules that an example names.
type ExampleModules struct{ Storage, Kv, Queue, Sink string }

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

# Pipelines, one table each, and the sinks to which each delivers. Dead letters are replayed to them.
#
# [[pipeline]]
# id = "earthquakes"
#
# [[pipeline.sink]]
# id = "alerts"
# module = %[6]q
# The keys of the module stand here, beside id and module.
`, DefaultStateDir, DefaultListen, m.Storage, m.Kv, m.Queue, m.Sink)
}
