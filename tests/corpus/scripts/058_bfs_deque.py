# task: Find the shortest chain of introductions from Ann to Zoe in my contact graph.
# expects: {"path": ["Ann", "Cem", "Dee", "Zoe"], "steps": 3}
from collections import deque

contacts = {
    "Ann": ["Bob", "Cem"],
    "Bob": ["Eve"],
    "Cem": ["Dee"],
    "Dee": ["Zoe"],
    "Eve": ["Fay"],
    "Fay": ["Zoe"],
    "Zoe": [],
}


def shortest_path(start: str, goal: str) -> list[str] | None:
    queue = deque([[start]])
    visited = {start}
    while queue:
        path = queue.popleft()
        if path[-1] == goal:
            return path
        for neighbour in contacts[path[-1]]:
            if neighbour not in visited:
                visited.add(neighbour)
                queue.append(path + [neighbour])
    return None


path = shortest_path("Ann", "Zoe")
{"path": path, "steps": len(path) - 1 if path else None}
