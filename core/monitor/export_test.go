package monitor

// Name is what a name stands for.
func Name(env Env, name string) any { return env.names[name] }
