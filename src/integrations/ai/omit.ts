/**
 * An object without one of its fields. What was sent, and what came over the wire, is left out of what is recorded: it would be
 * written with each reply, and is as long as everything before it.
 */
export function omit<From extends object, Field extends string>(from: From, field: Field): Omit<From, Field> {
  return Object.fromEntries(Object.entries(from).filter(([key]) => key !== field)) as Omit<From, Field>;
}
