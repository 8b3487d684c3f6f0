# Judges facts about the tree by the rules of dep-graph.txt; check-dep-graph.sh gathers the facts and
# says what each is. Rules come as the first file, facts as the second, fields separated by tabs.

function problem(text) { print "check-dep-graph: " text > "/dev/stderr"; problems++ }
function trim(text) { gsub(/^[ \t]+|[ \t]+$/, "", text); return text }
function below(path, folder) { return path == folder || index(path, folder "/") == 1 }

# matches reports whether name fits a pattern: itself, "*", or "dir/*" for what is directly below dir.
function matches(name, pattern,   dir, rest) {
  if (pattern == "*" || pattern == name) return 1
  if (pattern !~ /\/\*$/) return 0
  dir = substr(pattern, 1, length(pattern) - 1)
  if (index(name, dir) != 1) return 0
  rest = substr(name, length(dir) + 1)
  return rest != "" && rest !~ /\//
}

# allowed reports whether a line of the rules has the edge; with tests, a ~> line serves too.
function allowed(from, to, tests,   i) {
  if (from == to) return 1
  for (i = 1; i <= edges; i++)
    if ((tests || edgeKind[i] == "->") && matches(from, edgeFrom[i]) && matches(to, edgeTo[i])) return 1
  return 0
}

# why is the reason for which an edge is forbidden.
function why(from, to,   i) {
  for (i = 1; i <= nevers; i++)
    if (matches(from, neverFrom[i]) && matches(to, neverTo[i])) return neverWhy[i]
  if ((to in onlyFolder) && onlyFolder[to] != from) return "only " onlyFolder[to] " may: " onlyWhy[to]
  return "no line of scripts/dep-graph.txt allows it"
}

# target is what an import path belongs to: a folder of the workspace, a module elsewhere, or "" for
# the standard library.
function target(path,   best, name) {
  if (below(path, prefix)) {
    best = ""
    for (name in module)
      if (below(path, prefix "/" name) && length(name) > length(best)) best = name
    return best != "" ? best : substr(path, length(prefix) + 2)
  }
  if (path ~ /^[^.\/]+(\/|$)/) return ""
  if (moduleOf[path] != "") return moduleOf[path]
  best = ""
  for (name in named)
    if (below(path, name) && length(name) > length(best)) best = name
  return best != "" ? best : path
}

# owner is the module of the workspace that a file belongs to.
function owner(file,   best, name) {
  best = ""
  for (name in module)
    if (below(file, name) && length(name) > length(best)) best = name
  return best
}

# reach fills reached with the modules that the rules let from arrive at: by its tests for the first
# step if tests is set, by production edges from there on.
function reach(from, tests, reached,   queue, head, tail, at, name) {
  split("", reached); split("", queue)
  queue[1] = from; head = 1; tail = 1; reached[from] = 1
  while (head <= tail) {
    at = queue[head++]
    for (name in named)
      if (!(name in reached) && allowed(at, name, tests && at == from)) { reached[name] = 1; queue[++tail] = name }
  }
}

# closure walks the packages that the module's packages reach, and judges each module met on the way.
function closure(from, tests,   queue, head, tail, seen, via, path, i, n, list, to, reached, kind) {
  kind = tests ? "test" : "production"
  reach(from, tests, reached)
  head = 1; tail = 0
  for (path in imports) if (target(path) == from) { queue[++tail] = path; seen[path] = 1; via[path] = "" }
  while (head <= tail) {
    path = queue[head++]
    n = split(imports[path] (tests && target(path) == from ? " " testImports[path] : ""), list, " ")
    for (i = 1; i <= n; i++) {
      if (list[i] in seen) continue
      to = target(list[i])
      if (to == "") continue
      seen[list[i]] = 1; via[list[i]] = path; queue[++tail] = list[i]
      if (to == from || ((to, kind) in told)) continue
      if (!tests && (to in testing) && !(from in testing)) {
        told[to, kind] = 1
        problem(from ": " to " is testing code in the production closure (" testing[to] "): " chain(list[i], via))
      } else if (((to in module) || (to in onlyFolder)) && !(to in reached)) {
        told[to, kind] = 1
        problem(from ": the " kind " closure reaches " to ", which no path of allowed edges does: " chain(list[i], via))
      }
    }
  }
  split("", told)
}
function chain(path, via,   text) {
  for (text = path; via[path] != ""; path = via[path]) text = via[path] " imports " text
  return text
}

# cycle looks for a way from a module back to itself, over production, test and go.mod edges.
function cycle(at, trail,   name) {
  state[at] = "open"
  for (name in module) {
    if (!((at, name) in uses) || name == at) continue
    if (state[name] == "open") { problem("modules form a cycle: " substr(trail " -> " name, index(trail " -> " name, name))); cycles++ }
    else if (state[name] == "") cycle(name, trail " -> " name)
  }
  state[at] = "closed"
}

BEGIN { FS = "\t" }

# The rules.
FNR == NR {
  line = trim($0)
  if (line == "" || line ~ /^#/) next
  cut = match(line, /[ \t]:[ \t]/)
  if (!cut) { problem("scripts/dep-graph.txt:" FNR ": a rule without a reason: write it after \" : \""); next }
  reason = trim(substr(line, cut + 2))
  n = split(trim(substr(line, 1, cut)), word, /[ \t]+/)
  if (n == 2 && word[1] == "module") module[word[2]] = named[word[2]] = 1
  else if (n == 2 && word[1] == "testing") { testing[word[2]] = reason; named[word[2]] = 1 }
  else if (n == 3 && word[1] == "only") { onlyFolder[word[3]] = word[2]; onlyWhy[word[3]] = reason; named[word[3]] = 1 }
  else if (n == 3 && word[1] == "never") { neverFrom[++nevers] = word[2]; neverTo[nevers] = word[3]; neverWhy[nevers] = reason }
  else if (n == 3 && (word[2] == "->" || word[2] == "~>")) {
    edgeFrom[++edges] = word[1]; edgeKind[edges] = word[2]; edgeTo[edges] = word[3]; edgeLine[edges] = FNR
    if (word[3] !~ /\*/) named[word[3]] = 1
  } else problem("scripts/dep-graph.txt:" FNR ": no rule of a known form: " line)
  next
}

# The facts.
$1 == "work"    { work[$2] = 1; next }
$1 == "disk"    { disk[$2] = 1; next }
$1 == "path"    { goMod[$2] = $3; next }
$1 == "require" { requireFrom[++requires] = $2; requirePath[requires] = $3; requireKind[requires] = $4; required[$3] = 1; next }
$1 == "import"  { importFile[++sources] = $2; importPath[sources] = $3; next }
$1 == "mention" { mentionFile[++mentions] = $2; mentionName[mentions] = $3; next }
$1 == "package" { imports[$2] = $4; testImports[$2] = $5; if (below($3, prefix)) holds[substr($3, length(prefix) + 2)] = 1; else moduleOf[$2] = $3; next }
$1 == "error"   { broken[$2] = $3; next }

END {
  # 1. The inventory: what is named is there, and what is there is named.
  for (name in module) {
    if (!(name in work)) problem(name ": named in scripts/dep-graph.txt and not in go.work: has the module vanished?")
    if (!(name in disk)) problem(name ": named in scripts/dep-graph.txt and has no go.mod: has the module vanished?")
    else if (goMod[name] != "" && goMod[name] != prefix "/" name) problem(name ": go.mod calls the module " goMod[name] ", want " prefix "/" name)
    if (!(name in holds) && (name in disk)) problem(name ": the module holds no package: has its code vanished?")
  }
  for (name in work) if (!(name in module)) problem(name ": in go.work and not named in scripts/dep-graph.txt: add a module line and its edges")
  for (name in disk) {
    if (name == "") problem("go.mod: the root is no module; every folder with code has a go.mod of its own")
    else if (!(name in work)) problem(name ": has a go.mod and is not in go.work")
  }
  for (i = 1; i <= sources; i++) {
    file = importFile[i]
    if (owner(file) == "" && !(file in strayed)) { strayed[file] = 1; problem(file ": Go code outside every module of scripts/dep-graph.txt") }
  }

  # 2. The rules themselves.
  for (i = 1; i <= edges; i++) {
    if (edgeFrom[i] !~ /\*/ && !(edgeFrom[i] in module)) problem("scripts/dep-graph.txt:" edgeLine[i] ": an edge of " edgeFrom[i] ", which is no module")
    if (edgeTo[i] ~ /\*/ || (edgeTo[i] in module)) continue
    if (edgeTo[i] !~ /^[^\/]+\.[^\/]+\//) problem("scripts/dep-graph.txt:" edgeLine[i] ": an edge to " edgeTo[i] ", which is no module")
    else if (!(edgeTo[i] in required)) problem("scripts/dep-graph.txt:" edgeLine[i] ": an edge to " edgeTo[i] ", which no go.mod requires any more: take the line out")
  }
  for (from in module) for (to in named) {
    if (from == to || !allowed(from, to, 1)) continue
    for (i = 1; i <= nevers; i++)
      if (matches(from, neverFrom[i]) && matches(to, neverTo[i])) problem("scripts/dep-graph.txt allows " from " -> " to " and forbids it: " neverWhy[i])
    if ((to in onlyFolder) && onlyFolder[to] != from) problem("scripts/dep-graph.txt allows " from " -> " to ", which only " onlyFolder[to] " may have")
    if ((to in testing) && !(from in testing) && allowed(from, to, 0)) problem("scripts/dep-graph.txt allows testing code in production: " from " -> " to)
  }

  # 3. go.mod: what a module requires.
  for (i = 1; i <= requires; i++) {
    from = requireFrom[i]; path = requirePath[i]
    to = below(path, prefix) ? substr(path, length(prefix) + 2) : path
    if (requireKind[i] == "direct") {
      if (!allowed(from, to, 1)) problem(from "/go.mod requires " to ": " why(from, to))
      if (to in module) uses[from, to] = 1
    } else if ((to in module) || (to in onlyFolder)) {
      reach(from, 1, reached)
      if (!(to in reached)) problem(from "/go.mod requires " to " indirectly, which no path of allowed edges does: " why(from, to))
    }
  }

  # 4. Sources: what a file imports, whatever its build tags.
  for (i = 1; i <= sources; i++) {
    file = importFile[i]; from = owner(file); to = target(importPath[i])
    if (from == "" || to == "" || from == to) continue
    isTest = file ~ /_test\.go$/
    uses[from, to] = 1
    if (!allowed(from, to, isTest)) {
      reason = why(from, to)
      if (!isTest && allowed(from, to, 1)) reason = "only its tests may"
      problem(file " imports " importPath[i] ": " reason)
    }
    if ((to in module) && importPath[i] ~ /\/internal(\/|$)/) problem(file " imports " importPath[i] ": an internal package of another module, and the two may be of different versions")
  }

  for (i = 1; i <= mentions; i++)
    problem(mentionFile[i] " names " mentionName[i] ": only " onlyFolder[mentionName[i]] " may: " onlyWhy[mentionName[i]])

  # 5. The closures that the go command computes.
  for (path in broken) problem(path ": the go command cannot load it: " broken[path])
  for (name in module) { closure(name, 0); closure(name, 1) }

  # 6. Cycles, test edges included.
  for (name in module) if (state[name] == "") cycle(name, name)

  if (problems) { printf "check-dep-graph: %d problems; the rules and their reasons are in scripts/dep-graph.txt\n", problems > "/dev/stderr"; exit 1 }
  n = 0
  for (name in module) n++
  printf "check-dep-graph: %d modules, %d imports, %d requires: all as scripts/dep-graph.txt has it\n", n, sources, requires
}
