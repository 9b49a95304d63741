#!/usr/bin/env python3
"""Writes tune.json: how products run with tuning records beside without.

    summarize_tuning.py OUTPUT_DIR PART...

Reads PART.json of each part, which gemm_bench --tuning wrote: the first kernel
of a product is the planner's choice, the last one what the records name (the
same where tuning changed nothing). Speeds are of operands that are resident.
"""

import json
import math
import pathlib
import sys


def spread(values):
    """Geometric mean, tenth percentile, least and number of `values`."""
    ordered = sorted(values)
    mean = math.exp(sum(math.log(v) for v in ordered) / len(ordered))
    return {'mean': round(mean, 4), 'p10': round(ordered[len(ordered) // 10], 4),
            'worst': round(ordered[0], 4), 'shapes': len(ordered)}


def summarize(bench):
    """The figures of one part, by stratum and of all."""
    strata = {}
    for result in bench.values():
        before, after = result['kernels'][0]['us'], result['kernels'][-1]['us']
        row = {'speedup': before / after,
               'changed': len(result['kernels']) > 1}
        if result['cublaslt_us']:
            row['planned'] = result['cublaslt_us'] / before
            row['tuned'] = result['cublaslt_us'] / after
        for stratum in (result['stratum'], 'all'):
            strata.setdefault(stratum, []).append(row)
    return {stratum: {
        'changed': sum(row['changed'] for row in rows),
        **{key: spread([row[key] for row in rows if key in row])
           for key in ('speedup', 'planned', 'tuned')
           if any(key in row for row in rows)},
    } for stratum, rows in strata.items()}


def main():
    folder = pathlib.Path(sys.argv[1])
    out = {}
    for part in sys.argv[2:]:
        measured = json.loads((folder / f'{part}.json').read_text())
        out.setdefault('device', measured['device'])
        out.setdefault('template_digest', measured['template_digest'])
        out[part] = summarize(measured['bench'])
        if part == 'hot':
            asked = json.loads((folder / 'hot.jsonl').read_text())
            del asked['timeline']
            out['hot_requests'] = asked
        print(f'{part}: rank 0 / tuned by shape, then each to the best of '
              "cuBLASLt's heuristics: mean p10 worst")
        for stratum, figures in out[part].items():
            texts = ['{mean:.3f} {p10:.3f} {worst:.3f}'.format(**figures[key])
                     for key in ('speedup', 'planned', 'tuned')
                     if key in figures]
            print(f"  {stratum:8} {figures['speedup']['shapes']:4} shapes, "
                  f"{figures['changed']:4} changed | " + ' | '.join(texts))
    (folder / 'tune.json').write_text(json.dumps(out, indent=1) + '\n')


if __name__ == '__main__':
    main()
