-- Ten calls that reach outside, which is what calls of plugins are, end a turn that works a list in
-- its middle: the agent of the owner's messages may make thirty. Whoever chose another number keeps
-- it, and so does every other agent. The release before reads any number.
update agent set budget_external = 30 where name = 'main' and budget_external = 10;
