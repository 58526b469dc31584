# task: Transpose this table and give me row and column sums.
# expects: {"transposed": [[1, 4], [2, 5], [3, 6]], "rows": [6, 15], "columns": [5, 7, 9]}
table = [[1, 2, 3], [4, 5, 6]]
transposed = [list(column) for column in zip(*table)]
{
    "transposed": transposed,
    "rows": [sum(row) for row in table],
    "columns": [sum(row) for row in transposed],
}
