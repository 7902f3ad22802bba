"""Draws the logo, docs/pictures/logo.svg: a pumice stone, light because it is full of holes, and eight of the holes are a gang.

python -m tools.docs.logo
"""

from __future__ import annotations

import math

from tools.docs.pictures import FOLDER

SIZE = 96
STONE, EDGE, HOLE, MEMBER = "#a9a391", "#7d786a", "#d9d4c5", "#e9a23b"
CORNERS = (
    (0, 43),
    (38, 41),
    (79, 44),
    (118, 40),
    (161, 43),
    (203, 39),
    (247, 44),
    (291, 40),
    (329, 42),
)  # degrees, radius
RING_RADIUS, MEMBER_RADIUS, MEMBERS = 25.0, 6.0, 8
PORES = (
    (0, 0.0, 9.0),
    (3, 33.5, 2.8),
    (47, 33.0, 2.2),
    (91, 34.0, 2.6),
    (134, 33.0, 2.0),
    (179, 33.5, 2.8),
    (226, 33.0, 2.3),
    (269, 33.5, 2.6),
    (317, 33.0, 2.1),
)  # degrees, radius, size


def point(degrees: float, radius: float) -> tuple[float, float]:
    angle = math.radians(degrees)
    return SIZE / 2 + radius * math.cos(angle), SIZE / 2 + radius * math.sin(angle)


def outline() -> str:
    """The stone: a closed curve through the middles of its sides, round at every corner."""
    corners = [point(*each) for each in CORNERS]
    middles = [
        ((x + corners[number - 1][0]) / 2, (y + corners[number - 1][1]) / 2) for number, (x, y) in enumerate(corners)
    ]
    parts = [f"M{middles[0][0]:.1f} {middles[0][1]:.1f}"]
    for number, (x, y) in enumerate(corners):
        to_x, to_y = middles[(number + 1) % len(corners)]
        parts.append(f"Q{x:.1f} {y:.1f} {to_x:.1f} {to_y:.1f}")
    return "".join(parts) + "Z"


def circle(x: float, y: float, radius: float, fill: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}"/>'


def draw() -> str:
    members = [circle(*point(360 * n / MEMBERS + 22.5, RING_RADIUS), MEMBER_RADIUS, MEMBER) for n in range(MEMBERS)]
    pores = [circle(*point(degrees, radius), size, HOLE) for degrees, radius, size in PORES]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" role="img"><title>Pumice</title>'
        f'<path d="{outline()}" fill="{STONE}" stroke="{EDGE}" stroke-width="2"/>{"".join(pores)}{"".join(members)}</svg>\n'
    )


def main() -> None:
    (FOLDER / "logo.svg").write_text(draw())


if __name__ == "__main__":
    main()
