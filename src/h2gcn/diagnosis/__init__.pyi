from .advice import likeness as likeness
from .auditing import LARGE_RINGS as LARGE_RINGS, audit as audit
from .diagnosing import (
    ClassShare as ClassShare,
    Diagnosis as Diagnosis,
    diagnose as diagnose,
)
from .numbers import (
    NONE as NONE,
    number as number,
    percent as percent,
    rounded as rounded,
)
from .page import (
    STEPS as STEPS,
    heat_palette as heat_palette,
    render_html as render_html,
)
from .recommending import QuickFit as QuickFit, QuickScore as QuickScore
from .reliability_picture import reliability_svg as reliability_svg
from .words import (
    card_facts as card_facts,
    degree_range as degree_range,
    direction_rows as direction_rows,
    expectation as expectation,
    measure_rows as measure_rows,
    quick_heads as quick_heads,
    quick_rows as quick_rows,
    quick_sentence as quick_sentence,
    ring_rows as ring_rows,
)
