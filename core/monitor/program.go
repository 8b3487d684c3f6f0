package monitor

import (
	"errors"
	"fmt"
	"reflect"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/checker/nature"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	fieldtypes "github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// The bounds of an expression, and of one evaluation.
const (
	maxBytes   = 8 << 10
	maxNodes   = 1_000
	maxNesting = 3
	maxPattern = 500 // states of a regular expression
	maxSteps   = 5_000_000
	maxMemory  = 2_000_000 // values in lists that are made
)

// eventName is the name of the whole event.
const eventName = "event"

// program is a compiled expression.
type program struct {
	text string
	code *vm.Program
	// names are the top-level members that it uses. whole: it uses the event.
	names []string
	whole bool
	// result is the kind of what it gives, as far as that is known.
	result reflect.Kind
}

// compile compiles an expression whose result is of the kind expect, or of any if that is Invalid.
func compile(text string, fields map[string]string, expect reflect.Kind) (p *program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, refuseWhole("the expression cannot be compiled: it breaks the compiler; write it in another way")
		}
	}()
	if len(text) > maxBytes {
		return nil, refuseWhole("the expression has %d bytes: at most %d are allowed; make two monitors of it", len(text), maxBytes)
	}
	if strings.TrimSpace(text) == "" {
		return nil, refuseWhole("the expression is empty: give one, such as mag >= 4.5")
	}
	p = &program{text: text}
	if fields != nil {
		if p.result, err = checkTypes(text, fields, expect); err != nil {
			return nil, err
		}
	}

	config := newConfig(map[string]any{}, expect)
	config.Strict = false
	tree, err := parse(text, config)
	if err != nil {
		return nil, err
	}
	v := vetter{program: p}
	if err := v.vet(&tree.Node); err != nil {
		return nil, err
	}
	result, err := checker.Check(tree, config)
	if err != nil {
		return nil, resultError(text, typeError(text, err, ""), err)
	}
	if fields == nil {
		p.result = result.Kind()
	}
	// What was checked is compiled with its steps counted. Counting hides the types, so the tree is
	// made anew.
	if tree, err = parse(text, config); err != nil {
		return nil, err
	}
	if err := (&vetter{program: new(program), count: true}).vet(&tree.Node); err != nil {
		return nil, err
	}
	config.Expect = reflect.Invalid // the machine would take null for false
	if _, err := checker.Check(tree, config); err != nil {
		return nil, typeError(text, err, "")
	}
	ast.Walk(&tree.Node, equality{})
	if p.code, err = compiler.Compile(tree, config); err != nil {
		return nil, syntaxError(text, err)
	}
	return p, nil
}

// equality lets values be compared by what they are. By what the check takes them for, the machine
// would fail on a whole number where it expects another, as in (a > 1 ? 1 : a) == 1.
type equality struct{}

func (equality) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.BinaryNode); ok && (n.Operator == "==" || n.Operator == "!=") {
		n.Left.SetNature(nature.Nature{})
	}
}

func newConfig(env any, expect reflect.Kind) *conf.Config {
	config := conf.CreateNew()
	config.MaxNodes = maxNodes
	config.Optimize = false // it changes what fails, and how much is done
	config.Functions = table()
	clear(config.Builtins) // so that members may have the names of functions; calls are found all the same
	config.WithEnv(env)
	config.Expect, config.ExpectAny = expect, true
	return config
}

// parse makes the tree of an expression. No function of this package hides one of the language here.
func parse(text string, config *conf.Config) (*parser.Tree, error) {
	bare := *config
	bare.Functions = nil
	bare.Env = conf.New(map[string]any{}).Env
	tree, err := parser.ParseWithConfig(text, &bare)
	if err != nil {
		return nil, syntaxError(text, err)
	}
	return tree, nil
}

// fieldTypes are the types that a field may be declared as.
var fieldTypes = map[string]fieldtypes.Type{
	"number": fieldtypes.Float64, "string": fieldtypes.String, "bool": fieldtypes.Bool, "any": fieldtypes.Any,
	"object": fieldtypes.TypeOf(map[string]any{}), "array": fieldtypes.TypeOf([]any{}),
}

// checkTypes checks an expression against the declared fields. A number of JSON may be whole or not,
// which the language tells apart: it is enough that the expression holds for either.
func checkTypes(text string, fields map[string]string, expect reflect.Kind) (reflect.Kind, error) {
	env := fieldtypes.Map{eventName: fieldtypes.Any}
	var names []string
	for name, kind := range fields {
		known, ok := fieldTypes[kind]
		switch {
		case !ok:
			return 0, refuseWhole("the field %q has the unknown type %q: give number, string, bool, object, array or any", shorten(name), shorten(kind))
		case name == eventName:
			return 0, refuseWhole("the field %q cannot be declared: the name stands for the whole event; its member of that name is event.event", name)
		}
		env[name] = known
		names = append(names, name)
	}
	slices.Sort(names)
	known := strings.Join(names, ", ")
	if known == "" {
		known = "none"
	}
	var first error
	for _, number := range []fieldtypes.Type{fieldtypes.Float64, fieldtypes.Int} {
		for name, kind := range fields {
			if kind == "number" {
				env[name] = number
			}
		}
		config := newConfig(env, expect)
		tree, err := parse(text, config)
		if err != nil {
			return 0, err
		}
		if err := (&vetter{program: &program{text: text}}).vet(&tree.Node); err != nil {
			return 0, err
		}
		result, err := checker.Check(tree, config)
		if err == nil {
			return result.Kind(), nil
		}
		if first == nil {
			first = resultError(text, typeError(text, err, known), err)
		}
	}
	return 0, first
}

// resultError words the one fault of types that has no place: that of the result.
func resultError(text string, otherwise, err error) error {
	var placed *file.Error
	if errors.As(err, &placed) || !strings.HasPrefix(err.Error(), "expected bool, but got ") {
		return otherwise
	}
	got := strings.TrimPrefix(err.Error(), "expected bool, but got ")
	return refuse(text, 0, "a wrong result", "it gives "+article(plain(got))+" where true or false is wanted", "compare it with something, as in mag >= 4.5")
}

// vetter walks through a tree and refuses what an expression may not contain.
type vetter struct {
	program *program
	// count adds what counts the steps.
	count   bool
	counted bool
	locals  []string
	nesting int
}

// vet checks a whole tree and prepares it for compilation.
func (v *vetter) vet(root *ast.Node) error {
	if err := v.visit(root); err != nil {
		return err
	}
	slices.Sort(v.program.names)
	v.program.names = slices.Compact(v.program.names)
	if v.counted {
		body := *root
		*root = &ast.VariableDeclaratorNode{Name: meterName, Value: call(newMeter), Expr: body}
		(*root).SetLocation(body.Location())
	}
	return nil
}

func (v *vetter) refuse(node ast.Node, what, why, todo string) error {
	return refuse(v.program.text, node.Location().From, what, why, todo)
}

func (v *vetter) visitAll(nodes ...*ast.Node) error {
	for _, node := range nodes {
		if *node == nil {
			continue // an end of a slice that is left out
		}
		if err := v.visit(node); err != nil {
			return err
		}
	}
	return nil
}

func (v *vetter) visitList(nodes []ast.Node) error {
	for i := range nodes {
		if err := v.visit(&nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (v *vetter) visit(node *ast.Node) error {
	switch n := (*node).(type) {
	case *ast.NilNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.PointerNode:
		return nil
	case *ast.IdentifierNode:
		return v.name(n)
	case *ast.UnaryNode:
		return v.visit(&n.Node)
	case *ast.BinaryNode:
		return v.binary(n)
	case *ast.ChainNode:
		return v.visit(&n.Node)
	case *ast.MemberNode:
		if err := v.visitAll(&n.Node, &n.Property); err != nil {
			return err
		}
		v.flat(&n.Property, 1)
		return nil
	case *ast.SliceNode:
		return v.visitAll(&n.Node, &n.From, &n.To)
	case *ast.ConditionalNode:
		return v.visitAll(&n.Cond, &n.Exp1, &n.Exp2)
	case *ast.ArrayNode:
		return v.visitList(n.Nodes)
	case *ast.MapNode:
		return v.visitList(n.Pairs)
	case *ast.PairNode:
		if err := v.visitAll(&n.Key, &n.Value); err != nil {
			return err
		}
		v.flat(&n.Key, 1)
		return nil
	case *ast.SequenceNode:
		return v.visitList(n.Nodes)
	case *ast.VariableDeclaratorNode:
		return v.local(n)
	case *ast.BuiltinNode:
		return v.builtin(node, n)
	case *ast.CallNode:
		return v.call(n)
	case *ast.BytesNode:
		return v.refuse(n, "a text of bytes", `b"…" is not allowed`, "write a plain text")
	}
	return v.refuse(*node, "something unknown", fmt.Sprintf("%T is not allowed", *node), "write it in another way")
}

func (v *vetter) name(n *ast.IdentifierNode) error {
	switch {
	case slices.Contains(v.locals, n.Value):
	case n.Value == "$env":
		return v.refuse(n, "a name that is not allowed", "$env", "event is the whole event")
	case n.Value == eventName:
		v.program.whole = true
	default:
		v.program.names = append(v.program.names, n.Value)
	}
	return nil
}

func (v *vetter) local(n *ast.VariableDeclaratorNode) error {
	if n.Name == eventName {
		return v.refuse(n, "a name that is not allowed", "let event", "choose another name: event is the whole event")
	}
	if err := v.visit(&n.Value); err != nil {
		return err
	}
	v.locals = append(v.locals, n.Name)
	err := v.visit(&n.Expr)
	v.locals = v.locals[:len(v.locals)-1]
	return err
}

func (v *vetter) binary(n *ast.BinaryNode) error {
	if n.Operator == ".." {
		return v.refuse(n, "a range", "a .. b is not allowed", "compare instead, as in a <= x and x <= b")
	}
	if err := v.visitAll(&n.Left, &n.Right); err != nil {
		return err
	}
	switch n.Operator {
	case "==", "!=":
		if !isLiteral(n.Left) && !isLiteral(n.Right) {
			v.deep(&n.Left)
			v.deep(&n.Right)
		}
	case "<", ">", "<=", ">=":
		if v.nesting > 0 && !isLiteral(n.Left) && !isLiteral(n.Right) {
			v.flat(&n.Left, 1)
			v.flat(&n.Right, 1)
		}
	case "+":
		if !isNumber(n.Left) && !isNumber(n.Right) {
			v.flat(&n.Left, 1)
			v.flat(&n.Right, 1)
		}
	case "contains", "startsWith", "endsWith":
		if v.nesting > 0 || !isLiteral(n.Right) {
			v.flat(&n.Left, 1)
			v.flat(&n.Right, 1)
		}
	case "in":
		return v.in(n)
	case "matches":
		return v.matches(n)
	}
	return nil
}

// in makes one list for all events of a list that is written out.
func (v *vetter) in(n *ast.BinaryNode) error {
	if v.nesting > 0 {
		v.flat(&n.Left, 1)
	}
	list, ok := n.Right.(*ast.ArrayNode)
	if !ok || !v.count {
		if v.count {
			v.wrap(&n.Right, countList, 1)
		}
		return nil
	}
	values := make([]any, len(list.Nodes))
	for i, item := range list.Nodes {
		if values[i], ok = literal(item); !ok {
			v.wrap(&n.Right, countList, 1)
			return nil
		}
	}
	ast.Patch(&n.Right, &ast.ConstantNode{Value: values})
	return nil
}

func (v *vetter) matches(n *ast.BinaryNode) error {
	pattern, ok := n.Right.(*ast.StringNode)
	if !ok {
		return v.refuse(n.Right, "a pattern that is computed", "what stands behind matches is no text", "write the pattern out, or use contains, startsWith or ==")
	}
	tree, err := syntax.Parse(pattern.Value, syntax.Perl)
	if err != nil {
		return v.refuse(pattern, "a faulty pattern", err.Error(), "correct it; the form is that of RE2")
	}
	states := patternStates(tree)
	if states > maxPattern {
		return v.refuse(pattern, "a pattern that is too large", fmt.Sprintf("it has about %d states, and %d are allowed", states, maxPattern), "make it shorter, or repeat less in it")
	}
	// Each byte may visit each state.
	v.flat(&n.Left, 1+states)
	return nil
}

// patternStates estimates, never much too low, how many states a pattern compiles to. It stops
// somewhere above what is allowed.
func patternStates(re *syntax.Regexp) int {
	inner := 0
	for _, sub := range re.Sub {
		if inner > maxPattern {
			break
		}
		inner += patternStates(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass:
		return 1 + len(re.Rune)/8
	case syntax.OpRepeat:
		return (inner + 1) * max(re.Max, re.Min, 1)
	}
	return inner + 1
}

func (v *vetter) builtin(node *ast.Node, n *ast.BuiltinNode) error {
	if slices.Contains(loops, n.Name) {
		return v.loop(n)
	}
	w, ok := weights[n.Name]
	_, own := ours[n.Name]
	if !ok && !own {
		return v.refuseCall(n, n.Name)
	}
	if err := v.visitList(n.Arguments); err != nil {
		return err
	}
	if own {
		return v.own(node, n.Name, n.Arguments)
	}
	if n.Name == "trim" && len(n.Arguments) == 2 {
		return v.trim(n)
	}
	for i := range n.Arguments {
		switch {
		case w.deep:
			v.deep(&n.Arguments[i])
		case w.flat > 0 && !(n.Name == "get" && i == 0):
			v.flat(&n.Arguments[i], w.flat)
		}
	}
	return nil
}

// trim looks for each character of a text among those to take away, so these are written out, and count.
func (v *vetter) trim(n *ast.BuiltinNode) error {
	characters, ok := n.Arguments[1].(*ast.StringNode)
	if !ok {
		return v.refuse(n.Arguments[1], "characters that are computed", "what trim() takes away is no text that is written out", "write it out, or use trimPrefix() or trimSuffix()")
	}
	v.flat(&n.Arguments[0], 1+len(characters.Value))
	return nil
}

func (v *vetter) refuseCall(node ast.Node, name string) error {
	why := shorten(name) + "()"
	switch name {
	case "now", "date", "timezone", "duration":
		why += " is not allowed, because an event has to be judged in the same way whenever it is read"
		return v.refuse(node, "a function that is not allowed", why, "compare times as numbers: millis(TEXT) gives the milliseconds of an RFC 3339 time")
	case "keys", "values", "toPairs":
		why += " is not allowed, because the members of an object have no order"
	case "replace", "repeat", "join", "toJSON", "concat", "flatten":
		why += " is not allowed, because its result may be very large"
	default:
		why += " is not known here"
	}
	return v.refuse(node, "a function that is not allowed", why, "use one of "+functions())
}

// own makes a call of a function of this package.
func (v *vetter) own(node *ast.Node, name string, arguments []ast.Node) error {
	if len(arguments) != 1 {
		return v.refuse(*node, "a wrong call", fmt.Sprintf("%s() takes one value, and is given %d", name, len(arguments)), "give it one")
	}
	v.flat(&arguments[0], 1)
	made := call(name+"()", arguments[0])
	made.Callee.SetLocation((*node).Location())
	ast.Patch(node, made)
	return nil
}

func (v *vetter) call(n *ast.CallNode) error {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return v.refuse(n, "a call that is not allowed", "what is called is no function", "use one of "+functions())
	}
	if _, own := ours[callee.Value]; !own {
		return v.refuseCall(n, callee.Value)
	}
	if err := v.visitList(n.Arguments); err != nil {
		return err
	}
	var node ast.Node = n
	if err := v.own(&node, callee.Value, n.Arguments); err != nil {
		return err
	}
	made := node.(*ast.CallNode)
	n.Callee, n.Arguments = made.Callee, made.Arguments
	return nil
}

func (v *vetter) loop(n *ast.BuiltinNode) error {
	if err := v.visit(&n.Arguments[0]); err != nil {
		return err
	}
	if len(n.Arguments) == 1 { // count(list) and sum(list)
		if v.count {
			v.wrap(&n.Arguments[0], countLoop, 1)
		}
		return nil
	}
	predicate, ok := n.Arguments[1].(*ast.PredicateNode)
	if !ok {
		return v.refuse(n, "a wrong call", n.Name+"() wants an expression about each value", "write it as in any(list, # > 1)")
	}
	if v.nesting == maxNesting {
		return v.refuse(n, "loops that are nested too deep", fmt.Sprintf("%d are allowed within each other", maxNesting), "take the inner one out")
	}
	v.nesting++
	err := v.visit(&predicate.Node)
	v.nesting--
	if v.count && err == nil {
		v.wrap(&predicate.Node, countStep, bodySteps(predicate.Node))
		v.wrap(&n.Arguments[0], countLoop, 0) // its turns count for themselves
	}
	return err
}

// bodySteps is the number of nodes that one turn of a loop goes through, those of loops within it aside,
// which count for themselves.
func bodySteps(node ast.Node) int {
	c := counter{}
	c.steps = 1
	ast.Walk(&node, &c)
	return c.steps - c.inner
}

// counter counts nodes; ast.Walk visits children first.
type counter struct{ steps, inner int }

func (c *counter) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.StringNode:
		c.steps += 1 + len(n.Value)/8
	case *ast.ConstantNode:
		if list, ok := n.Value.([]any); ok {
			c.steps += 1 + len(list)
		}
	case *ast.PredicateNode:
		c.inner += bodySteps(n.Node)
	default:
		c.steps++
	}
}

// flat counts a value without what lies within it.
func (v *vetter) flat(node *ast.Node, factor int) {
	if v.count && factor > 0 && !isLiteral(*node) {
		v.wrap(node, countFlat, factor)
	}
}

// deep counts a value with all that lies within it.
func (v *vetter) deep(node *ast.Node) {
	if v.count && !isLiteral(*node) {
		v.wrap(node, countDeep, 1)
	}
}

func (v *vetter) wrap(node *ast.Node, counting string, factor int) {
	v.counted = true
	made := call(counting, &ast.IdentifierNode{Value: meterName}, *node, &ast.IntegerNode{Value: factor})
	ast.Patch(node, made)
}

func call(name string, arguments ...ast.Node) *ast.CallNode {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: arguments}
}

// literal is the value of a node that is written out.
func literal(node ast.Node) (any, bool) {
	switch n := node.(type) {
	case *ast.NilNode:
		return nil, true
	case *ast.BoolNode:
		return n.Value, true
	case *ast.IntegerNode:
		return n.Value, true
	case *ast.FloatNode:
		return n.Value, true
	case *ast.StringNode:
		return n.Value, true
	case *ast.UnaryNode:
		value, _ := literal(n.Node)
		switch value := value.(type) {
		case int:
			if n.Operator == "-" {
				return -value, true
			}
		case float64:
			if n.Operator == "-" {
				return -value, true
			}
		}
	}
	return nil, false
}

func isLiteral(node ast.Node) bool {
	_, ok := literal(node)
	return ok
}

func isNumber(node ast.Node) bool {
	switch value, _ := literal(node); value.(type) {
	case int, float64:
		return true
	}
	return false
}
