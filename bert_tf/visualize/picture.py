"""The attention of one input as a static picture.

Left one head as lines between two columns of pieces, right all heads small.
"""

import numpy as np

from bert_tf.visualize.attention import Attention

_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
    "Microsoft YaHei",
    "Hiragino Sans",
)
# Segment 0, segment 1, padding: fills of the pieces and colours of lines.
_FILLS = ("#dbe7f8", "#fde3c8", "#eeeeee")
_LINES = ("#2a63b8", "#b3590a", "#999999")
_MIN_SHOWN = 0.02


def draw(attention: Attention, layer: int, head: int, target) -> None:
    """Draws a PNG.

    Args:
      attention: what to show.
      layer: number of the layer drawn as lines; one of `attention.layers`.
      head: its head, from 0.
      target: path or binary file to write to.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import font_manager, pyplot

    known = set(font_manager.get_font_names())
    fonts = [name for name in _FONTS if name in known] or ["sans-serif"]
    count = len(attention.tokens)
    rows, columns = attention.values.shape[:2]
    height = max(3.5, 0.24 * count + 1.0, 0.75 * rows + 1.2)
    widths = (4.8, max(2.2, 0.8 * columns))
    with pyplot.rc_context({"font.family": fonts}):
        figure = pyplot.figure(
            figsize=(sum(widths) + 0.6, height), layout="constrained"
        )
        left, right = figure.subfigures(1, 2, width_ratios=widths)
        _draw_lines(left, attention, layer, head)
        _draw_heads(right, attention, layer, head)
        figure.savefig(target, dpi=130, format="png")
        pyplot.close(figure)


def _group(attention: Attention, position: int) -> int:
    if not attention.input_mask[position]:
        return 2
    return 1 if attention.segment_ids[position] else 0


def _draw_lines(figure, attention: Attention, layer: int, head: int) -> None:
    from matplotlib.collections import LineCollection

    values = attention.values[attention.layers.index(layer), head]
    axes = figure.subplots()
    for position, token in enumerate(attention.tokens):
        group = _group(attention, position)
        for x, side in ((0.0, "right"), (1.0, "left")):
            axes.text(
                x,
                position,
                token,
                ha=side,
                va="center",
                fontsize=9,
                # A token may hold a dollar sign.
                parse_math=False,
                color="#777777" if group == 2 else "black",
                bbox={"fc": _FILLS[group], "ec": "none", "pad": 1.5},
            )
    shown = np.argwhere(values >= _MIN_SHOWN)
    axes.add_collection(
        LineCollection(
            [((0.03, source), (0.97, target)) for source, target in shown],
            colors=[_LINES[_group(attention, source)] for source, _ in shown],
            alpha=np.minimum(1.0, values[tuple(shown.T)]),
            linewidths=1.6,
            capstyle="round",
        )
    )
    axes.set_xlim(-0.75, 1.75)
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.axis("off")
    axes.set_title(
        f"layer {layer}, head {head}: from left to right", fontsize=10
    )


def _draw_heads(figure, attention: Attention, layer: int, head: int) -> None:
    rows, columns, size = attention.values.shape[:3]
    space = max(1, size // 8)
    step = size + space
    # All heads are one image: hundreds of axes would take half a minute.
    image = np.full((rows * step - space, columns * step - space), np.nan)
    for row in range(rows):
        for column in range(columns):
            y, x = row * step, column * step
            # The root shows what is small beside a few large values.
            image[y : y + size, x : x + size] = np.sqrt(
                attention.values[row, column]
            )
    from matplotlib.patches import Rectangle

    axes = figure.subplots()
    axes.imshow(image, cmap="Blues", vmin=0, vmax=1)
    axes.set_anchor("N")
    axes.set_frame_on(False)
    centre = (size - 1) / 2
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(columns) * step + centre, range(columns))
    axes.set_yticks(np.arange(rows) * step + centre, attention.layers)
    axes.tick_params(length=0, labelsize=8)
    axes.set_title("heads (across) of layers (down)", fontsize=10)
    for row in range(rows):
        for column in range(columns):
            chosen = (attention.layers[row], column) == (layer, head)
            corner = (column * step - 0.5, row * step - 0.5)
            axes.add_patch(
                Rectangle(
                    corner,
                    size,
                    size,
                    fill=False,
                    color="#b3590a" if chosen else "#cccccc",
                    linewidth=2.0 if chosen else 0.6,
                    clip_on=False,
                    zorder=3 if chosen else 2,
                )
            )
