package config

import "fmt"

// Example is a file to start from: it works as it is, says what each key is for, and has the built-in
// defaults. The modules are the caller's, since this package knows none.
func Example(kvModule, queueModule string) string {
	return fmt.Sprintf(`# The configuration of Stowage. Unknown keys are refused; "stowage config check" reads the file
# without starting anything, and "stowage modules" lists the modules and their keys.

# Where all data is kept. A relative path starts at the directory of this file; relative paths of
# modules start here.
state_dir = %[1]q

[http]
# Where the daemon listens. There is no TLS: keep it on the loopback interface, or put a proxy that
# ends TLS in front.
listen = %[2]q

# Key-value stores, one table each: [kv.NAME].
[kv.default]
module = %[3]q

# Queues that have settings of their own, one table each: [queue.NAME]. One that is missing is made
# when the daemon starts. All other queues are made with "stowage queue create".
#
# [queue.orders]
# module = %[4]q
#
# [queue.orders.config]
# The keys of the module stand here.
`, DefaultStateDir, DefaultListen, kvModule, queueModule)
}
