//! The last gate of a query: nothing that was made of lost pages is given out.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{FutureExt as _, StreamExt as _};

use super::session::QueryScope;

/// `batches`, each checked before it is given and once more at the end: operators and whoever
/// writes the answer go on reading mapped pages after the scan has given them. Zeros in the place
/// of a lost page may break an operator: then the page is the reason, not the operator.
pub(super) fn checked(
    batches: SendableRecordBatchStream,
    scope: Arc<QueryScope>,
) -> SendableRecordBatchStream {
    let schema = batches.schema();
    let checked = futures::stream::unfold((Some(batches), scope), async |(batches, scope)| {
        let mut batches = batches?;
        let next = AssertUnwindSafe(batches.next()).catch_unwind().await;
        if let Err(lost) = scope.check_opened() {
            return Some((Err(lost.into()), (None, scope)));
        }
        match next {
            Ok(next) => next.map(|batch| (batch, (Some(batches), scope))),
            Err(panic) => resume_unwind(panic),
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, checked))
}
