"""Charges an order once, whatever is killed meanwhile."""

import sys

from pawl_client import Client, current_call


def charge(payload: dict[str, str]) -> str:
    """Charges the card. A repeated call has the same key: pass it to the payment service."""
    return f"charged {payload['order']} under {current_call().idempotency_key}"


with Client(address=sys.argv[1]) as client:
    result = client.run(
        "shop",
        model="openai:gpt-5-mini",
        tools={"charge": charge},
        request_id="order-17",
        input="Order 17, please.",
    )
    print(result.status, result.artifacts)
