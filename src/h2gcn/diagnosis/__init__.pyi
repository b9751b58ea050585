from .advice import QuickFit as QuickFit, QuickScore as QuickScore, likeness as likeness
from .auditing import (
    LARGE_RINGS as LARGE_RINGS,
    audit as audit,
    misleading as misleading,
)
from .diagnosing import (
    ClassShare as ClassShare,
    Diagnosis as Diagnosis,
    diagnose as diagnose,
)
from .display import (
    STEPS as STEPS,
    ReasonChart as ReasonChart,
    card_facts as card_facts,
    degree_range as degree_range,
    direction_rows as direction_rows,
    expectation as expectation,
    find_template as find_template,
    heat_palette as heat_palette,
    measure_rows as measure_rows,
    quick_heads as quick_heads,
    quick_rows as quick_rows,
    quick_sentence as quick_sentence,
    reliability_svg as reliability_svg,
    render_html as render_html,
    render_reasons as render_reasons,
    ring_rows as ring_rows,
)
from .numbers import (
    NONE as NONE,
    number as number,
    percent as percent,
    points as points,
    rounded as rounded,
)
